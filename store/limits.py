"""Every bound of the log, and what happens there."""

from __future__ import annotations

from typing import Final

APPENDS_WAITING_MAX: Final = 8_192
"""Batches that may wait for the writer; one more is refused with LogBusy."""

BYTES_WAITING_MAX: Final = 64 * 1_048_576
"""Bytes of the batches that may wait for the writer; more are refused with LogBusy."""

BATCH_BYTES_MAX: Final = 16 * 1_048_576
"""Bytes of one batch; a larger one is refused with TextTooLarge."""

GROUP_BATCHES_MAX: Final = 512
"""Batches that share a commit; the others wait for the next. With 256, 512 producers cost a tenth more processor time an append
(`scripts/bench/README.md`)."""

GROUP_BYTES_MAX: Final = 4 * 1_048_576
"""Bytes after which a group takes no further batch, so that no commit holds up the ones behind it for long."""

HEADS_CACHED_MAX: Final = 100_000
"""Heads that the writer keeps in memory; beyond it the cache starts afresh."""

BUSY_MS: Final = 5_000
"""How long a write waits for another process's transaction before it is refused with LogBusy."""

CLAIM_TRIES: Final = 3
"""How often a claim waits `BUSY_MS` for its turn before it is refused with LogBusy."""

DISK_RESERVE_BYTES: Final = 16 * 1_048_576
"""Free space below which appends are refused with LogBusy: a disk that fills during a COMMIT would end the process."""

FOLLOW_POLL_MS: Final = 500
"""How often a follower looks for what other processes committed."""

PAGE_ROWS: Final = 250
"""Events of a page unless its reader asks for another size. A larger page pushes what is folded out of the
processor's cache, a smaller one pays more for the way between the threads (`scripts/bench/README.md`)."""

PAGE_ROWS_MAX: Final = 50_000
"""Rows of a page; more would hold the log's clean-up up."""

INTEGER_MAX: Final = 2**63 - 1
"""The largest integer that SQLite and PostgreSQL store."""
