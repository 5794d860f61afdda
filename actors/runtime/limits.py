"""Every bound of the runtime, with what happens at it."""

from __future__ import annotations

MAILBOX_LIMIT = 1_000
"""Messages waiting for one actor; the next one is refused with MailboxFull. Stop and completions always get in."""

TURN_BUDGET = 16
"""Messages that one actor handles before the others get their turn."""

PUMP_TURNS = 64
"""Actor turns in one iteration of the asyncio loop; then sockets and timers are looked at."""

LIVE_MAX = 10_000
"""Live actors of a directory; beyond it the least recently used idle ones are passivated (soft: busy ones stay)."""

PASSIVATION_SCAN = 64
"""Busy actors that one passivation round passes over before it leaves the rest to the next round."""

TIMER_RECHECK_MS = 30_000
"""Longest sleep between two looks at the clock: how late a timer may be after the machine slept (ms)."""

OFFLOAD_THREADS = 2
"""Threads for work over 5 ms; with the interpreter's lock more only help work that waits."""

OFFLOAD_LIMIT = 64
"""Background jobs waiting or running; the next one is refused with OffloadFull."""

TRACE_TURNS = 30
"""Turns that a simulation remembers for its failure report."""

SIMULATED_TURNS = 1_000_000
"""Turns after which a simulation that does not come to rest is given up with NotIdle."""
