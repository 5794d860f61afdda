"""The gateway's README tells an agent's author, and who calls it over HTTP, of everything that is there; and of nothing else.
(Metrics: tests/tidy/test_documented.py.)"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec
import pytest

import actors.gateway
from actors.agents.hub import REPLACED
from actors.gateway import api, errors, routes, views
from actors.gateway.agent_link import TOO_SLOW, AgentLimits
from actors.gateway.agent_wire import AUTH_SCHEMA, KINDS, Error, GatewayFrame, read_frame
from actors.gateway.agents import STOPPING, TOO_LATE, TOO_MANY, UNAUTHORIZED

FOLDER = Path(actors.gateway.__file__).parent
README = (FOLDER / "README.md").read_text(encoding="utf-8")
SAID = {kind: cls for cls in get_args(GatewayFrame) if (kind := cls.__struct_config__.tag)}


def rows(first: str) -> dict[str, list[str]]:
    """The table whose head begins with a word: by the first cell, the others."""
    found = re.search(rf"^\| {first} \|.*\n\|[-|]+\n((?:\|.*\n)+)", README, re.MULTILINE)
    assert found, f"no table of {first}"
    cells = [[c.strip() for c in line.strip("|").split(" |")] for line in found[1].splitlines()]
    return {name: row[1:] for row in cells for name in re.findall(r"`([^`]+)`", row[0])}


# --- frames -----------------------------------------------------------------------------------------------------------


def examples(arrow: str) -> list[dict[str, Any]]:
    return [json.loads(line[2:]) for line in README.splitlines() if line.startswith(f"{arrow} ")]


def fields_shown(arrow: str) -> dict[str, set[str]]:
    shown: dict[str, set[str]] = {}
    for frame in examples(arrow):
        shown.setdefault(frame["type"], set()).update(frame.keys() - {"type"})
    return shown


def names(cls: type[msgspec.Struct]) -> set[str]:
    return {f.encode_name for f in msgspec.structs.fields(cls)}


def test_every_example_of_an_agent_is_read_as_it_stands() -> None:
    for frame in examples("→"):
        found = read_frame(json.dumps(frame))
        assert not isinstance(found, Error), (frame, found)


def test_every_example_of_the_gateway_is_one_that_it_could_send() -> None:
    for frame in examples("←"):
        found = msgspec.json.decode(json.dumps(frame), type=GatewayFrame, strict=True)
        assert set(frame) - {"type"} <= names(type(found))


def test_every_frame_is_shown_with_every_field_and_told() -> None:
    said, heard = fields_shown("←"), fields_shown("→")
    assert set(said) == set(SAID)
    assert set(heard) == set(KINDS)
    assert said == {kind: names(cls) for kind, cls in SAID.items()}
    endings = {"completed", "degraded", "failed"}
    together = set().union(*(heard[kind] for kind in endings))
    for kind, cls in KINDS.items():
        shown = together | {"session"} if kind in endings else heard[kind]
        assert names(cls) <= shown, kind
    assert set(rows("frame")) == set(SAID) | set(KINDS)


def test_every_state_that_a_receipt_may_tell_is_told() -> None:
    for state in (*get_args(views.State), "open"):
        assert f"`{state}`" in README


def test_every_code_with_which_the_gateway_closes_is_told() -> None:
    library = (1007, 1009, 1011)
    for code in (REPLACED, TOO_SLOW, STOPPING, TOO_LATE, TOO_MANY, UNAUTHORIZED, *library):
        assert re.search(rf"^\|.*\b{code}\b", README, re.MULTILINE), code
    assert AUTH_SCHEMA in README


def test_the_limits_are_those_that_hold() -> None:
    limits = AgentLimits()
    for said in (
        f"{limits.connections} connections",
        f"{limits.sockets} sockets",
        f"{limits.first_frame_ms // 1000} s for the token",
        f"{limits.frames_per_s:,} frames a second, {limits.under_way} unanswered",
        f"{limits.queue_frames} frames or {limits.queue_bytes // 1_048_576} MB",
        f"{limits.send_ms // 1000} s for one of them",
        f"a pong within {limits.ping_ms // 1000} s",
    ):
        assert said in README, said


# --- HTTP -------------------------------------------------------------------------------------------------------------

STRUCTS = {**vars(views), **vars(api), **vars(routes)}


def test_every_endpoint_is_told_and_no_other() -> None:
    there = {f"{r.method} {r.path}" for r in routes.ROUTES} | {f"GET {p}" for p in (*routes.OPEN_PATHS, "/metrics")}
    assert set(rows("endpoint")) == there


def of(kind: type[msgspec.Struct]) -> set[str]:
    """Names of the structs of one sort."""
    base = {"View", "Request", "NoQuery"}
    return {n for n, c in STRUCTS.items() if isinstance(c, type) and issubclass(c, kind) and n not in base}


def test_every_request_and_answer_is_told_with_its_fields() -> None:
    takes, answers = rows("takes"), rows("answers")
    assert set(takes) == of(api.Request)
    assert set(answers) == of(views.View)
    for name, (told,) in answers.items():
        assert re.findall(r"`(\w+)`", told) == [f.name for f in msgspec.structs.fields(STRUCTS[name])], name
    for name, (told,) in takes.items():
        fields = msgspec.structs.fields(STRUCTS[name])
        assert re.findall(r"`(\w+)`", told) == [f.name for f in fields], name
        assert re.findall(r"\*\*`(\w+)`\*\*", told) == [f.name for f in fields if f.required], name
        for field in fields:
            for choice in choices(field.type):
                assert re.search(rf"`{field.name}`\**? \([^)]*\b{choice}\b", told), (name, field.name, choice)


def choices(kind: Any) -> Iterator[str]:
    if get_origin(kind) is Literal:
        yield from map(str, get_args(kind))
    for each in get_args(kind):
        yield from choices(each)


@pytest.mark.parametrize("endpoint", sorted(rows("endpoint")))
def test_what_an_endpoint_takes_and_answers_is_told_below(endpoint: str) -> None:
    given, answered = rows("endpoint")[endpoint]
    for name in re.findall(r"[A-Z]\w+(?:Offer|Query|Order)", given):
        assert name in rows("takes")
    told = re.findall(
        r"\b(?:[A-Z]\w+View|TurnAccepted|DryRun|Receipt|LedgerPage|WaitingShown|DeadShown|Gone|Erased|Bound|Paused)\b",
        answered,
    )
    assert told or endpoint == "GET /metrics"
    assert set(told) <= set(rows("answers"))


# --- refusals ---------------------------------------------------------------------------------------------------------


def refusals(of: type[errors.GatewayError] = errors.GatewayError) -> Iterator[type[errors.GatewayError]]:
    for cls in of.__subclasses__():
        yield cls
        yield from refusals(cls)


def test_every_error_code_is_told_with_its_status() -> None:
    told = {code: row[0] for code, row in rows("error code").items()}
    over_http = {cls.code: str(cls.status) for cls in refusals()}
    source = "".join(
        p.read_text(encoding="utf-8") for p in (*FOLDER.glob("agent*.py"), *(FOLDER.parent / "agents").glob("*.py"))
    )
    to_agents = set(re.findall(r'code="([a-z_]+)"', source))
    assert {code: told.get(code) for code in over_http} == over_http
    assert set(told) == set(over_http) | to_agents
