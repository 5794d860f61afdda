"""The command line of `replyledger audit`.

`--verify` recomputes the chain of digests instead of listing rows, and `--head` prints one root over it, to be published elsewhere.
"""

from __future__ import annotations

from typing import Annotated

import typer

from scripts.choices import kinds_of, moment, results_of
from scripts.errors import Misused
from scripts.exits import Failed
from scripts.reading.audit import AuditOptions, audit
from scripts.reading.opening import LogFile, present, progress, read_log
from scripts.reading.proof import print_head, print_proof, root_of
from scripts.verbs import start, verb
from store.log import Reader

app = verb()


@app.command()
def show(
    ctx: typer.Context,
    *,
    peer: Annotated[
        str, typer.Option(help="an address, or the beginning of one; CHANNEL:ACCOUNT = who logged in")
    ] = "",
    since: Annotated[str, typer.Option(help="from then on: 2026-05-01T09:00, `2h ago`, ms")] = "",
    until: Annotated[str, typer.Option(help="before then")] = "",
    kind: Annotated[list[str] | None, typer.Option(help="answer, push, notice; repeatable")] = None,
    outcome: Annotated[list[str] | None, typer.Option(help="confirmed, unknown, ...; repeatable")] = None,
    free: Annotated[bool, typer.Option("--free", help="also requests that spent nothing")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="comma-separated values with a header")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="recompute the chain of digests; exit 1 if it is broken")
    ] = False,
    head: Annotated[bool, typer.Option("--head", help="print one root over all streams")] = False,
    against: Annotated[str, typer.Option(help="with --verify: the log must extend this root")] = "",
    log: LogFile = None,
) -> None:
    """Print one row for each reply that was spent: whom it went to, what it carried, and what is known of it."""
    given, printer = start(ctx)
    kinds, results, published = kinds_of(kind or ()), results_of(outcome or ()), root_of(against)
    if against and not verify:
        raise Misused("--against goes with --verify")

    async def rows(reader: Reader) -> None:
        now = await present(reader, given, log)
        options = AuditOptions(
            peer=peer,
            since=moment(since, now, "--since"),
            until=moment(until, now, "--until"),
            kinds=kinds,
            outcomes=results,
            free=free,
            csv=as_csv,
        )
        with progress(printer, await reader.position(), "reading the log") as told:
            await audit(reader, options, printer, told)

    async def work(reader: Reader) -> bool:
        if head:
            await print_head(reader, printer)
        if verify:
            return await print_proof(reader, published, await present(reader, given, log), printer)
        if not head:
            await rows(reader)
        return True

    if not read_log(given, log, work):
        raise Failed("the log is not as it was written")
