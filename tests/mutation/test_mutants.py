"""The faults are planted as they say, a mutant that nobody meets survives, and a sample of the folds and deciders is met."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from events.peer_shapes import PeerState
from tests.mutation.__main__ import equivalent, modules
from tests.mutation.mutants import Mutant, mutants, plant
from tests.mutation.warm import changed, function_of
from tests.rooms import ROOT, own_file, room_of

SAMPLE = 24
SAMPLE_S = 420

TABLE = [
    ("def f(): return a < b", "< is <=", "a <= b"),
    ("def f(): return a < b >= c", ">= is >", "a < b > c"),
    ("def f(): return a == b", "== is !=", "a != b"),
    ("def f(): return a is None", "is is is not", "a is not None"),
    ("def f(): return a not in b", "not in is in", "a in b"),
    ("def f(): return a + b", "+ is -", "a - b"),
    ("def f():\n    a += b", "+ is -", "a -= b"),
    ("def f(): return a and b or c", "or is and", "(a and b) and c"),
    ("def f(): return not a", "not is left out", "return a"),
    ("def f():\n    if a: b", "if is unless", "if not a"),
    ("def f(): return a if b else c", "if is unless", "a if not b else c"),
    ("def f(): return [a for a in b if a]", "a filter is left out", "[a for a in b]"),
    ("def f():\n  match a:\n    case b if c: pass", "the guard is left out", "case b:"),
    ("def f(): return True", "True is False", "return False"),
    ("def f(): return 3", "3 is 4", "return 4"),
    ("def f():\n    g(a)\n    return b", "left out", "pass\n"),
]


@pytest.mark.parametrize(("text", "what", "becomes"), TABLE, ids=[what for _, what, _ in TABLE])
def test_a_fault_is_planted_alone(text: str, what: str, becomes: str) -> None:
    (found,) = [m for m in mutants("m.py", text) if m.what == what]
    said = ast.unparse(plant(text, found.number))
    assert becomes in said
    assert said != ast.unparse(ast.parse(text))


@pytest.mark.parametrize(
    "text",
    [
        '"""Of a module."""\nX: Final = 3\nY = (1, True)',
        "class A(B, frozen=True, order=False):\n    '''Says.'''\n    c: Annotated[int, Meta(ge=1)]",
        "@cache(maxsize=3)\ndef f(a: X[1]) -> Y[2]:\n    raise E(f'{a + 1}', 3)",
        "def f():\n    assert a < 3, b + 1\n    assert_never(x)",
    ],
)
def test_what_nobody_could_tell_apart_is_left_alone(text: str) -> None:
    assert mutants("m.py", text) == []


def test_each_mutant_has_a_number_of_its_own() -> None:
    text = (ROOT / "events" / "quota.py").read_text(encoding="utf-8")
    found = mutants("events/quota.py", text)
    planted = {ast.unparse(plant(text, m.number)) for m in found}
    assert len(found) > 40
    assert len(planted) == len(found)
    assert ast.unparse(ast.parse(text)) not in planted


def test_a_module_knows_its_tests() -> None:
    assert own_file("events/quota.py") == "tests/events/test_quota.py"
    assert own_file("actors/deciding/gate.py") == "tests/actors/test_gate.py"
    assert own_file("actors/channels/weixin/wire.py") == "tests/channels/weixin/test_wire.py"
    assert own_file("actors/deciding/view.py") == ""
    assert room_of("actors/deciding/view.py") == "tests/actors"
    assert room_of("scripts/reading/telling.py") == "tests/scripts"
    assert all((ROOT / room_of(name)).is_dir() for name in modules([]))


def test_what_changes_a_function_is_put_in_its_place_and_nothing_else() -> None:
    module = "events/bot.py"
    every = mutants(module, (ROOT / module).read_text(encoding="utf-8"))
    found = {m.code: code.co_qualname if (code := changed(m)) else None for m in every}
    assert found["return to(state, clock_steps=state.clock_steps + 1)"] == "_apply"
    facts = mutants("actors/deciding/facts.py", (ROOT / "actors/deciding/facts.py").read_text(encoding="utf-8"))
    assert sum(changed(m) is not None for m in facts) > 20, (
        "also in a module whose functions share names, as lambdas do"
    )
    assert found["share_replies: int = 3"] is None, "a default is fixed when its module is imported"
    assert changed(Mutant(module=module, number=10_000, line=1, code="", what="")) is None
    assert function_of("events/peer_shapes.py", "PeerState.waiting") is PeerState.waiting.fget  # type: ignore[attr-defined]  # a property
    assert function_of("events/bot.py", "gone") is None


def test_equivalent_mutants_are_mutants_still() -> None:
    every = {m.name for name in modules([]) for m in mutants(name, (ROOT / name).read_text(encoding="utf-8"))}
    assert not set(equivalent()) - every, "lines that are not in the code any more"


def _mutation(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.mutation", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SAMPLE_S, check=False)


MEETING = """
from tests.mutation.__main__ import equivalent, modules
from tests.mutation.mutants import Mutant, mutants
from tests.mutation.running import meet
from tests.rooms import ROOT
module = "events/bot.py"
every = mutants(module, (ROOT / module).read_text())
equal = next(m for m in every if m.name in equivalent())
field = next(m for m in every if m.code.startswith("quota_replies: int"))
fold = next(m for m in every if "clock_steps + 1" in m.code)
none = Mutant(module="events/streams.py", number=10000, line=1, code="", what="")
print(*[met.fate for met in meet([equal, fold], 1)], *[met.fate for met in meet([field, none], 1)])
"""


@pytest.mark.slow
@pytest.mark.timeout(SAMPLE_S)
def test_no_fault_survives_and_a_fault_does_not() -> None:
    """Otherwise every mutant would be killed by the way it is met; in tests that are loaded, and in those that load the fault."""
    command = [sys.executable, "-c", MEETING]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SAMPLE_S, check=False)
    assert done.stdout.split() == ["survived", "killed", "killed", "survived"], done.stderr


@pytest.mark.slow
@pytest.mark.timeout(SAMPLE_S)
def test_a_sample_of_folds_and_deciders(capsys: pytest.CaptureFixture[str]) -> None:
    done = _mutation("--sample", str(SAMPLE))
    with capsys.disabled():
        print(f"\n{done.stdout}")
    assert done.returncode == 0, done.stdout + done.stderr
