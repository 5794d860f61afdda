"""A process that appends until it is stopped, and says what was acknowledged. Run by test_durability.

    appending.py LOG PRODUCERS APPENDS [FILE_BYTES_MAX, 0 = no limit] [SYNCHRONOUS]

Each line on stdout is the position of an acknowledged event, printed after its append returned.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from pathlib import Path

from events.peer import SessionBound
from store.errors import LogFailed
from store.records import ANY, Batch, Write
from store.sqlite import SqliteLog

BOT = "weixin:main"


async def main(path: Path, producers: int, appends: int, synchronous: str = "") -> None:
    log = await SqliteLog.open(path, salt=b"0123456789abcdef", at=1)
    if synchronous:
        await log._writes.run(lambda connection: connection.execute(f"PRAGMA synchronous = {synchronous}").close())
    claim = await log.claim(BOT, "child", 1)
    groups = 0
    real = log._core.append_group

    def counted(group):
        nonlocal groups
        groups += 1
        return real(group)

    log._core.append_group = counted  # type: ignore[method-assign]

    async def produce(number: int) -> None:
        event = SessionBound(session="s" * 100)
        for _ in range(appends):
            write = Write(f"peer-{number:016x}", ANY, (event,))
            appended = await log.append(Batch(account=BOT, epoch=claim.epoch, at=1, writes=(write,)))
            os.write(1, f"{appended.recorded[0].position}\n".encode())

    results = await asyncio.gather(*[produce(n) for n in range(producers)], return_exceptions=True)
    os.write(2, f"groups {groups}\n".encode())
    failed = {type(r).__name__ for r in results if isinstance(r, BaseException)}
    os.write(2, f"failed {sorted(failed)}\n".encode())
    await log.close()
    if failed:
        raise SystemExit(1 if failed == {LogFailed.__name__} else 2)


if __name__ == "__main__":
    limit = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), *sys.argv[5:6]))
