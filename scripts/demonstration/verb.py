"""`replyledger demo`: a scripted day between real processes on this machine, and whether phone and ledger agree about it."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import typer

from scripts.demonstration.day import OPENING, Day, Say
from scripts.demonstration.errors import DemoFailed, Disagreement
from scripts.demonstration.folder import Folder
from scripts.demonstration.processes import processes
from scripts.demonstration.reading import read_copy
from scripts.demonstration.stage import Phone, stage
from scripts.demonstration.table import render
from scripts.demonstration.verdict import Verdict, compare
from scripts.options import Options
from scripts.printing import Printer
from scripts.simulators.weixin.knobs import Fault
from scripts.verbs import start, verb

app = verb()

DEFAULT_FOLDER = Path("demo-log")
DIFFERENCES_SHOWN_MAX = 20


@app.command()
def demo(
    ctx: typer.Context,
    keep: Annotated[
        Path, typer.Option("--keep", metavar="DIR", help="leave the log there; a folder that a demo made is replaced")
    ] = DEFAULT_FOLDER,
) -> None:
    """Play a scripted day between a simulated Weixin server and the gateway, and compare phone and ledger."""
    given, printer = start(ctx)
    asyncio.run(_demo(Folder(keep), given, printer))


async def _demo(folder: Folder, given: Options, printer: Printer) -> None:
    def say(text: str) -> None:
        printer.line(text)
        printer.flush()

    async with _ended_by_term():
        verdict, day = await play(folder, say, told=printer.talk)
    if given.json:
        for pair in verdict.pairs:
            printer.row(pair, "")
    else:
        printer.raw(render(verdict, terminal=given.terminal, color=given.color))
        printer.flush()
    judge(verdict)
    spent = sum(1 for pair in verdict.pairs if pair.row is not None and pair.row.charged)
    say(f"Phone and ledger agree: {spent} replies were spent, equal in text, order, slot and share.")
    say(_explore(folder, day))


async def play(
    folder: Folder,
    say: Say,
    *,
    told: Say = lambda _: None,
    faults: Sequence[Fault] = (),
    meddle: Callable[[Phone], Phone] = lambda phone: phone,
) -> tuple[Verdict, Day]:
    """Play the day in a folder and compare. Raises DemoFailed where a step goes wrong; `told` then hears what the processes said.

    `faults` go wrong at the simulator, and `meddle` falsifies what it tells: so that a test sees the demo fail.
    """
    folder.make()
    async with processes(folder.processes) as children:
        try:
            async with stage(folder, children, OPENING) as scene:
                for fault in faults:
                    await scene.phone.post(object, "/control/faults", fault)
                say("Simulator, gateway and agent run, on one simulated clock. All numbers are the default policy's.")
                day = Day(scene, say)
                await day.play()
                phone = meddle(await scene.read_phone())
        except DemoFailed:
            told(children.tails())
            raise
    found = await read_copy(folder.log, folder.copy)
    return compare(phone, found, day.expected), day


def judge(verdict: Verdict) -> None:
    """Fail loudly where phone and ledger disagree. Raises Disagreement."""
    if not verdict.agrees:
        shown = "\n".join(f"  {one}" for one in verdict.differences[:DIFFERENCES_SHOWN_MAX])
        raise Disagreement(f"PHONE AND LEDGER DISAGREE, {len(verdict.differences)} differences:\n{shown}")


@asynccontextmanager
async def _ended_by_term() -> AsyncIterator[None]:
    """TERM ends the demo as Ctrl-C does: with all its processes."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    asked: list[bool] = []

    def end() -> None:
        asked.append(True)
        task.cancel()

    loop.add_signal_handler(signal.SIGTERM, end)
    try:
        yield
    except asyncio.CancelledError:
        if asked:
            raise DemoFailed("ended by a signal; nothing of it runs any more") from None
        raise
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


def _explore(folder: Folder, day: Day) -> str:
    command = f"{_program()} --config {_shown(folder.config)}"
    told = day.told
    return "\n".join(
        (
            "",
            f"The log is left in {_shown(folder.path)}. Its clock was simulated, and it says so for ever. Explore it:",
            f"  {command} audit --free        # one row for each reply",
            f"  {command} audit --verify      # whether it is as it was written",
            f"  {command} replay              # quota and backlog, from the events alone",
            f"  {command} explain {told['merged']}  # three in one",
            f"  {command} explain {told['waited']}  # why it waited, and what freed it",
            f"  {command} explain {told['refused']}  # refused with a stale token",
            f"  {command} explain {told['inherited']}  # accepted by one instance, sent by the next",
            f"  {command} events tail --texts # the events as they lie in the log",
            f"  {command} events show 1       # one of them",
        )
    )


def _shown(path: Path) -> str:
    """A path as it can be typed here: relative if it lies below."""
    below = Path(os.path.relpath(path))
    return shlex.quote(str(path.absolute() if below.parts[:1] == ("..",) else below))


def _program() -> str:
    """How the reader can call the program here."""
    beside = Path(sys.executable).with_name("replyledger")
    if not beside.exists():
        return f"{_shown(Path(sys.executable))} -m scripts"
    found = shutil.which("replyledger")
    return "replyledger" if found and beside.samefile(found) else _shown(beside)
