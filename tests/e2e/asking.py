"""Plain HTTP questions, one connection each."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

ASK_S = 75.0


class Answer(msgspec.Struct, frozen=True):
    """What came back; `body` is decoded JSON, or text."""

    status: int
    body: Any


def ask(base_url: str, method: str, path: str, body: Any = None, raw: bytes | None = None, **headers: str) -> Answer:
    """Ask; `body` goes as JSON, `raw` as it is. Raises OSError or HTTPException where nobody answers."""
    where = urlsplit(base_url)
    connection = http.client.HTTPConnection(str(where.hostname), where.port, timeout=ASK_S)
    data = raw if raw is not None else None if body is None else json.dumps(body).encode()
    sent = {"Content-Type": "application/json"} | {k.replace("_", "-"): v for k, v in headers.items()}
    try:
        connection.request(method, path, data, sent)
        answer = connection.getresponse()
        said = answer.read()
        is_json = answer.headers.get_content_type() == "application/json"
        return Answer(answer.status, json.loads(said) if is_json else said.decode())
    finally:
        connection.close()


def path_with(path: str, **query: Any) -> str:
    """A path with the given parts of a query."""
    given = {k: v for k, v in query.items() if v is not None}
    return f"{path}?{urlencode(given)}" if given else path
