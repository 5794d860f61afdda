"""Mutants met by the tests, each in a process of its own. Most change a function, and are met by tests that are loaded already
(`warm.py`); the others by tests that import the changed module, in a process forked from one which has imported all libraries."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import resource
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, ModuleType
from typing import Literal

import aiohttp  # noqa: F401 (imported once, for all)
import aiosqlite  # noqa: F401
import hypothesis  # noqa: F401
import msgspec
import pykka  # noqa: F401
import pytest

from tests.mutation.mutants import Mutant, plant
from tests.mutation.warm import Meeting
from tests.rooms import ROOT, own_file, room_of

ARGUMENTS = ("-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", "--timeout", "60")
REWRITE = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
"""Hypothesis is here already when pytest starts."""

CPU_S = 120
"""A mutant that computes longer than this is killed, and counts as found: its tests take a few seconds."""

Fate = Literal["killed", "survived"]


class Met(msgspec.Struct, frozen=True):
    """A mutant and what became of it."""

    mutant: Mutant
    fate: Fate


class _Planted(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module with a fault in it."""

    def __init__(self, name: str, code: CodeType) -> None:
        self._name, self._code = name, code

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        """See MetaPathFinder."""
        return importlib.util.spec_from_loader(fullname, self) if fullname == self._name else None

    def exec_module(self, module: ModuleType) -> None:
        """See Loader."""
        module.__file__ = str(ROOT / f"{self._name.replace('.', '/')}.py")
        exec(self._code, module.__dict__)


def _run(mutant: Mutant | None, tests: tuple[str, ...]) -> int:
    """In the forked process: pytest's exit code."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    if mutant is not None:
        path = ROOT / mutant.module
        code = compile(plant(path.read_text(encoding="utf-8"), mutant.number), str(path), "exec")
        sys.meta_path.insert(0, _Planted(mutant.module.removesuffix(".py").replace("/", "."), code))
    return int(pytest.main([*ARGUMENTS, *REWRITE, *tests]))


def _forked(deed: Callable[[], int]) -> int:
    """The pid of a child that does it, silently, and ends with its code."""
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silence, stream)
        code = deed()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def suites_of(module: str) -> Iterator[tuple[str, ...]]:
    """The tests that meet a module's mutants, one group after the other: its own, its room's, those of whoever reads it."""
    own = own_file(module)
    if own:
        yield (own,)
    yield tuple(dict.fromkeys((room_of(module), "tests/events", "tests/actors")))
    yield ("tests/agents", "tests/scripts/test_explain.py", "tests/store/test_ledger.py")


def meet(mutants: Sequence[Mutant], jobs: int = 2) -> Iterator[Met]:
    """What becomes of each, as it is known. Raises RuntimeError where the tests fail without any fault."""
    cold = set(range(len(mutants)))
    for number, fate in _warm(mutants, jobs):
        cold.discard(number)
        yield Met(mutants[number], fate)
    yield from _cold([mutants[n] for n in sorted(cold)], jobs)


def _warm(mutants: Sequence[Mutant], jobs: int) -> Iterator[tuple[int, Fate]]:
    """(which, its fate) of those that change a function."""
    reading, writing = os.pipe()
    rooms = dict.fromkeys(
        room for m in mutants for group in suites_of(m.module) for room in group if room != own_file(m.module)
    )

    def deed() -> int:
        os.close(reading)
        return int(pytest.main([*ARGUMENTS, *REWRITE, *rooms], plugins=[Meeting(mutants, jobs, writing)]))

    pid = _forked(deed)
    os.close(writing)
    with os.fdopen(reading) as said:
        for line in said:
            number, fate = line.split()
            yield int(number), "killed" if fate == "killed" else "survived"
    _, status = os.waitpid(pid, 0)
    if status:
        raise RuntimeError("without any fault these tests fail, or cannot be loaded")


def _cold(mutants: Sequence[Mutant], jobs: int) -> Iterator[Met]:
    waiting = [(m, list(suites_of(m.module))) for m in mutants]
    _sound({suite for _, groups in waiting for suite in groups})
    running: dict[int, tuple[Mutant, list[tuple[str, ...]]]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant, groups = waiting.pop(0)
            running[_forked(lambda m=mutant, g=groups: _run(m, g[0]))] = (mutant, groups)  # type: ignore[misc]
        pid, status = os.wait()
        mutant, groups = running.pop(pid)
        if status != 0:
            yield Met(mutant, "killed")
        elif groups[1:]:
            waiting.insert(0, (mutant, groups[1:]))
        else:
            yield Met(mutant, "survived")


def _sound(groups: set[tuple[str, ...]]) -> None:
    """A suite that fails by itself would kill everything."""
    for group in sorted(groups):
        pid, status = os.waitpid(_forked(lambda g=group: _run(None, g)), 0)  # type: ignore[misc]
        if pid and status:
            raise RuntimeError(f"without any fault these tests fail: {' '.join(group)}")
