"""The verdict for people: what the phone showed, beside what the ledger says."""

from __future__ import annotations

import io
import shutil

from scripts.demonstration.day import label
from scripts.demonstration.verdict import Pair, Verdict
from scripts.printing import plain

WIDTH_MIN, WIDTH_PIPED = 100, 160
TEXT_CHARS_MAX = 44


def render(verdict: Verdict, *, terminal: bool, color: bool) -> str:
    """The two columns, line by line in order of time."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    width = max(WIDTH_MIN, shutil.get_terminal_size().columns) if terminal else WIDTH_PIPED
    out = io.StringIO()
    console = Console(file=out, force_terminal=color, no_color=not color, width=width, highlight=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("TIME", no_wrap=True)
    table.add_column("THE PHONE (asked from the simulator)", ratio=1, overflow="fold")
    table.add_column("THE LEDGER (replayed from a copy of the log)", ratio=1, overflow="fold")
    table.add_column("", no_wrap=True)
    for pair in verdict.pairs:
        style = "bold red" if pair.differences else "dim" if pair.row is None else ""
        mark = "DIFFERS" if pair.differences else "same"
        cells = (label(pair.at), _phone(pair), _ledger(pair), mark)
        table.add_row(*(Text(plain(cell)) for cell in cells), style=style)
    console.print(table)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def _phone(pair: Pair) -> str:
    if pair.said is not None:
        return f"> {_short(pair.said.text)}"
    if pair.arrived is not None:
        charged = f"reply {pair.arrived.slot}" if pair.arrived.slot else "not charged"
        return f"< {_short(pair.arrived.text)}  [{charged}]"
    if pair.refused is not None:
        return f"(refused, {pair.refused.code}: {_short(pair.refused.text)})"
    return "(nothing)"


def _ledger(pair: Pair) -> str:
    if pair.message is not None:
        return f"message opens window {pair.message.window}"
    row = pair.row
    if row is None:
        return "(nothing)"
    share = f", share {row.share} of {row.shares}" if row.shares and row.charged else ""
    spent = f"slot {row.slot} of {row.slots}{share}" if row.charged else f"free, code {row.code}"
    merged = f", {len(row.turn_ids)} turns in one" if len(row.turn_ids) > 1 else ""
    return f"{row.kind:<6} {row.outcome}: {spent}{merged}, {row.bytes} B, epoch {row.epoch}"


def _short(text: str) -> str:
    line = " / ".join(part for part in text.splitlines() if part.strip(" —"))
    return line if len(line) <= TEXT_CHARS_MAX else f"{line[: TEXT_CHARS_MAX - 1]}…"
