"""Every rule finds the fault it is there for, and leaves alone what only looks like it."""

from __future__ import annotations

import pytest

from tests.tidy import rules, units
from tests.tidy.rules import RULES, Rule
from tests.tidy.source import module

FAULTS: list[tuple[Rule, str, str]] = [
    (rules.arrows, "events/x.py", "import store.log"),
    (rules.arrows, "store/x.py", "from actors import peer"),
    (rules.arrows, "actors/x.py", "def f():\n    from scripts.run import main"),
    (rules.arrows, "actors/x.py", "import importlib\nimportlib.import_module('scripts.run')"),
    (rules.arrows, "scripts/x.py", "import tests.corpus"),
    (rules.runtime_alone, "actors/runtime/x.py", "import events.peer"),
    (rules.runtime_alone, "actors/runtime/x.py", "from actors.bot import Bot"),
    (rules.pure_vocabulary, "events/x.py", "import asyncio"),
    (rules.pure_vocabulary, "events/x.py", "import os"),
    (rules.pure_vocabulary, "events/x.py", "open('x')"),
    (rules.witnesses_share_nothing, "scripts/simulators/x.py", "from actors.channels.weixin import wire"),
    (rules.time_and_entropy, "actors/x.py", "import time"),
    (rules.time_and_entropy, "actors/x.py", "def f():\n    from random import Random"),
    (rules.time_and_entropy, "actors/x.py", "__import__('uuid')"),
    (rules.time_and_entropy, "actors/x.py", "from datetime import datetime\ndatetime.now()"),
    (rules.time_and_entropy, "actors/x.py", "from datetime import datetime as d\nfactory = d.utcnow"),
    (rules.time_and_entropy, "actors/x.py", "import datetime as dt\ndt.datetime.now(tz=None)"),
    (rules.time_and_entropy, "actors/x.py", "import datetime\ndatetime.date.today()"),
    (rules.time_and_entropy, "actors/x.py", "from os import urandom\nurandom(4)"),
    (rules.time_and_entropy, "scripts/x.py", "import os\nos.urandom(4)"),
    (rules.time_and_entropy, "actors/x.py", "import asyncio\nasyncio.get_running_loop().time()"),
    (rules.time_and_entropy, "actors/x.py", "self._loop.time()"),
    (rules.no_proxies, "actors/x.py", "ref.proxy()"),
    (rules.no_proxies, "actors/x.py", "f = self.actor_ref.proxy"),
    (rules.no_proxies, "actors/x.py", "from pykka import ActorProxy\nActorProxy(ref)"),
    (rules.no_blocking_asks, "actors/x.py", "import pykka"),
    (rules.no_blocking_asks, "store/x.py", "from pykka import ActorRef"),
    (rules.no_blocking_asks, "actors/x.py", "ref.ask(1)"),
    (rules.no_blocking_asks, "actors/runtime/x.py", "self.actor_ref.ask(1, timeout=3)"),
    (rules.no_blocking_asks, "actors/runtime/x.py", "self._ref.ask(1, block=True)"),
    (rules.no_blocking_asks, "actors/runtime/x.py", "Peer().begin(scheduler).ask(1)"),
    (rules.no_blocking_asks, "actors/x.py", "whoever.ask(1, block=blocks)"),
    (rules.no_blocking_asks, "actors/runtime/x.py", "futures[0].join_all(futures)"),
    (rules.no_await_on_pykka, "actors/x.py", "async def f():\n    await ref.ask(1, block=False)"),
    (
        rules.no_await_on_pykka,
        "actors/x.py",
        "async def f():\n    r = peer_ref.ask(1, block=False)\n    return await r",
    ),
    (rules.no_formatted_sql, "store/x.py", 'f"SELECT * FROM events WHERE stream = {name}"'),
    (rules.no_formatted_sql, "store/x.py", 'f"""\n  INSERT OR IGNORE INTO keys VALUES ({a})"""'),
    (rules.no_formatted_sql, "store/x.py", "\"DELETE FROM keys WHERE key = '%s'\" % key"),
    (rules.no_formatted_sql, "store/x.py", '"UPDATE heads SET at = {}".format(at)'),
    (rules.no_formatted_sql, "store/x.py", '"SELECT at FROM " + table'),
    (rules.no_formatted_sql, "store/x.py", 'con.execute(f"{verb} {rest}")'),
    (rules.no_formatted_sql, "store/x.py", 'con.execute(f"PRAGMA cache_size = {n}")'),
    (rules.no_formatted_sql, "store/x.py", 'find_rows(con, f"{head} (", keys)'),
    (rules.no_numbered_parameters, "store/x.py", '"SELECT 1 FROM a " "WHERE b = ?1"'),
    (rules.no_numbered_parameters, "store/x.py", '"SELECT 1 FROM a WHERE b IN (?9, ?10)"'),
    (rules.no_swallowed_errors, "store/x.py", "try:\n    f()\nexcept:\n    raise"),
    (rules.no_swallowed_errors, "store/x.py", "try:\n    f()\nexcept Exception:\n    pass"),
    (
        rules.no_swallowed_errors,
        "store/x.py",
        "for x in y:\n  try:\n    f()\n  except (OSError, BaseException):\n    continue",
    ),
    (rules.no_swallowed_errors, "store/x.py", "try:\n    f()\nexcept Exception:\n    ..."),
    (rules.no_swallowed_errors, "store/x.py", "import contextlib\nwith contextlib.suppress(Exception):\n    f()"),
    (units.units, "store/x.py", "def wait(timeout: float) -> None:\n    '''Wait.'''"),
    (units.units, "store/x.py", "class A:\n    '''A thing.'''\n    age: int = 0"),
    (units.units, "store/x.py", "class A:\n    '''A thing.'''\n    body_size: int | None"),
    (units.units, "store/x.py", "def length() -> int:\n    '''How long it is.'''"),
    (units.units, "store/x.py", "RETRY_INTERVAL: Final = 5"),
    (units.units, "store/x.py", "RETRY_AFTER = 5"),
    (units.units, "store/x.py", "def f(sent_at: float) -> None:\n    '''Send.'''"),
    (units.units, "store/x.py", "def f(size: int) -> None:\n    '''Cut.'''"),
]

INNOCENT: list[tuple[Rule, str, str]] = [
    (rules.arrows, "actors/x.py", "import events.peer, store.log, actors.bot"),
    (rules.arrows, "scripts/x.py", "import storey, actorsnear"),
    (rules.runtime_alone, "actors/runtime/x.py", "from actors.runtime import clock"),
    (rules.runtime_alone, "actors/x.py", "from events import peer"),
    (rules.pure_vocabulary, "events/x.py", "import msgspec\nfrom collections.abc import Iterator\nstate.open()"),
    (rules.witnesses_share_nothing, "scripts/simulators/x.py", "from scripts.simulators import clock"),
    (rules.time_and_entropy, "actors/runtime/clock.py", "import time\ntime.time()"),
    (
        rules.time_and_entropy,
        "actors/x.py",
        "from datetime import datetime, UTC\ndatetime.fromtimestamp(0, UTC)\nclock.now()",
    ),
    (rules.time_and_entropy, "actors/x.py", "import asyncio\nasyncio.timeout(1)\nself.time\nloop.call_later(1, f)"),
    (rules.no_proxies, "actors/x.py", "connect(url, proxy=None)\nproxy = 1\nprint(proxy)"),
    (rules.no_blocking_asks, "actors/runtime/x.py", "import pykka\nself.actor_ref.ask(1, block=False)"),
    (rules.no_blocking_asks, "actors/x.py", "directory.ask(stream, command)\nself._href_list.get_all('Host')"),
    (rules.no_await_on_pykka, "actors/x.py", "async def f():\n    await directory.ask(stream, 1)\n    await slot"),
    (rules.no_formatted_sql, "store/x.py", 'con.execute("SELECT at FROM events " "WHERE at = ?", (f"{x}",)[0:1])'),
    (rules.no_formatted_sql, "store/x.py", 'con.execute(f"PRAGMA user_version = {SCHEMA}")'),
    (rules.no_formatted_sql, "store/x.py", 'f"the update of {name} was refused; select another from the list"'),
    (rules.no_numbered_parameters, "store/x.py", '"SELECT 1 FROM a WHERE b = :b AND c = ? LIMIT ?"\n"is it 5 or ?5"'),
    (rules.no_swallowed_errors, "store/x.py", "try:\n    f()\nexcept Exception as e:\n    report(e)"),
    (rules.no_swallowed_errors, "store/x.py", "try:\n    f()\nexcept OSError:\n    pass"),
    (rules.no_swallowed_errors, "store/x.py", "import contextlib\nwith contextlib.suppress(OSError):\n    f()"),
    (units.units, "store/x.py", "def wait(timeout_ms: int, age: Duration) -> None:\n    '''Wait.'''"),
    (units.units, "store/x.py", "def wait(timeout: float) -> None:\n    '''Wait; `timeout` in seconds.'''"),
    (units.units, "store/x.py", "def _wait(timeout: float) -> None:\n    '''Wait.'''"),
    (units.units, "store/x.py", "class A:\n    '''A thing.'''\n    age: int = 0  # ms since it was made"),
    (units.units, "store/x.py", "class A:\n    '''A thing; `age` in ms.'''\n    age: int = 0\n    message: str = ''"),
    (units.units, "store/x.py", "RETRY_AFTER = 5\n'''In seconds.'''"),
    (units.units, "store/x.py", "def page(after: int, size: int) -> tuple[str, ...]:\n    '''A page.'''"),
    (units.units, "store/x.py", "PAGE: Final = 5\nSTAGE = 4\nmanager: int = 3"),
]


def _name(case: object) -> str:
    return str(getattr(case, "__name__", case))


@pytest.mark.parametrize(("rule", "name", "text"), FAULTS, ids=_name)
def test_a_planted_fault_is_found(rule: Rule, name: str, text: str) -> None:
    assert list(rule(module(name, text))), f"{rule.__name__} does not see:\n{text}"


@pytest.mark.parametrize(("rule", "name", "text"), INNOCENT, ids=_name)
def test_what_only_looks_like_it_is_left_alone(rule: Rule, name: str, text: str) -> None:
    assert list(rule(module(name, text))) == []


def test_every_rule_has_its_faults() -> None:
    assert {*RULES, units.units} == {rule for rule, _, _ in FAULTS} == {rule for rule, _, _ in INNOCENT}
