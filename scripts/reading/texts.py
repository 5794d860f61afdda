"""Whether the texts that were sent are still the texts that were sent.

Texts lie outside the chain, so that they can be erased; but each request holds the fingerprint of its text. What is checked: the text of
every request, and that none is gone without a word in the log. Inbound messages and outputs that never left have no fingerprint.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from events.peer import BodyErased, SendRequested
from events.streams import fingerprint
from store.log import Reader
from store.verify import Finding


async def changed_texts(reader: Reader) -> AsyncIterator[Finding]:
    """What is wrong with the texts of requests."""
    salt = bytes.fromhex((await reader.meta())["salt"])
    missing: dict[str, Finding] = {}
    erased: set[str] = set()
    async for page in reader.page():
        requests = {r.event.body: r for r in page if isinstance(r.event, SendRequested)}
        erased.update(body for r in page if isinstance(r.event, BodyErased) for body in r.event.bodies)
        texts: Mapping[str, str] = await reader.bodies(requests) if requests else {}
        for body, r in requests.items():
            assert isinstance(r.event, SendRequested)
            text = texts.get(body)
            if text is None:
                missing[body] = Finding(r.position, r.stream, f"the text of request {r.event.request} is gone")
            elif fingerprint(salt, text) != r.event.digest:
                yield Finding(r.position, r.stream, f"the text of request {r.event.request} was changed")
    for body, finding in missing.items():
        if body not in erased:
            yield finding
