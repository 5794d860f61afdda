"""What the gateway answers, in words and columns for people."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterable
from typing import Any

from actors.deciding.facts import carried
from actors.gateway.views import DeliveryView, Forecast, QuotaView, Receipt, ShareView
from actors.text.counts import counted
from events.base import Millis
from scripts.options import Options
from scripts.printing import Printer, plain

WIDTH_MAX = 4_096
"""Columns of a table that nobody looks at on a terminal: wide enough to cut nothing."""

Row = tuple[Any, tuple[str, ...]]
"""A record for `--json`, and its cells."""


def table(given: Options, printer: Printer, head: tuple[str, ...], rows: Iterable[Row]) -> None:
    """Print a list: with `--json` each record on a line, else columns. An empty list says so on standard error."""
    found = list(rows)
    if given.json:
        for data, _ in found:
            printer.row(data, "")
    elif found:
        printer.raw(_columns(given, head, [cells for _, cells in found]))
    else:
        printer.talk("nothing")


def _columns(given: Options, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    out = io.StringIO()
    width = shutil.get_terminal_size().columns if given.terminal else WIDTH_MAX
    console = Console(file=out, force_terminal=given.color, no_color=not given.color, width=width, highlight=False)
    columns = Table(box=None, pad_edge=False, header_style="bold")
    for name in head:
        columns.add_column(name, overflow="fold")
    for cells in rows:
        columns.add_row(*(Text(plain(cell)) for cell in cells))
    console.print(columns)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def quota(view: QuotaView) -> str:
    """`7 of 10`."""
    return f"{view.left} of {view.of}"


def share(view: ShareView) -> str:
    """`1 of 3`."""
    return f"{view.used} of {view.of}"


def when(printer: Printer, at: Millis | None, never: str = "-") -> str:
    """A time with its zone, or what None means."""
    return never if at is None else printer.time(at)


def earliest(printer: Printer, at: Millis | None) -> str:
    """When something may leave; the reason beside it says what it waits for where that is no time."""
    return when(printer, at, "when that happens; no time is known")


def paused(printer: Printer, until: Millis | None) -> str:
    """A pause: 0 = none, None = until resumed."""
    return "" if until == 0 else f"paused until {when(printer, until, 'resumed')}"


def room(printer: Printer, quota_view: QuotaView, share_view: ShareView) -> str:
    """Quota and share in one line."""
    window = when(printer, quota_view.ends_at, "no window is open")
    rolls = "" if share_view.rolls_at is None else f", the next frees {printer.time(share_view.rolls_at)}"
    ends = f"until {window}" if quota_view.ends_at is not None else window
    return f"quota {quota(quota_view)} left{carried(quota_view.carried)}, {ends}; share {share(share_view)} used{rolls}"


def delivery(printer: Printer, view: DeliveryView | Receipt) -> str:
    """One delivery in two or three lines."""
    lines = [f"{view.delivery}  {view.peer}  turn {view.turn_id}  {view.state}: {view.reason}"]
    if view.state == "queued":
        lines.append(f"  earliest: {earliest(printer, view.earliest)}")
    if view.state in ("queued", "requested"):
        lines.append(f"  {room(printer, view.quota, view.share)}")
    return "\n".join(lines)


def named(deliveries: Iterable[str], turn_ids: Iterable[str]) -> str:
    """Deliveries, each with its turn."""
    return ", ".join(f"{delivery} (turn {turn_id})" for delivery, turn_id in zip(deliveries, turn_ids, strict=True))


def forecast(printer: Printer, view: Forecast) -> str:
    """What would become of a turn."""
    words = {"send": "would go now", "wait": "would wait", "skip": "would be skipped", "refuse": "would be refused"}
    lines = [f"{view.peer}  {words[view.would]}: {view.reason}"]
    if view.would == "wait":
        lines.append(f"  earliest: {earliest(printer, view.earliest)}")
    spends = f"spends {counted(view.replies, 'reply', 'replies')}"
    lines.append(
        f"  quota {quota(view.quota_before)} -> {quota(view.quota_after)} left{carried(view.quota_after.carried)}; {spends}"
    )
    lines.append(f"  share {share(view.share_before)} -> {share(view.share_after)} used")
    if view.drops:
        lines.append(f"  would drop: {named(view.drops, view.drop_turn_ids)}")
    return "\n".join(lines)
