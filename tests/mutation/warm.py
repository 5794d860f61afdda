"""Mutants met by tests that are loaded already: a child is forked for each, puts the changed function in place, and runs only the
tests that come by the changed line, the quickest first.

Loading the tests takes longer than running those of one line, so that this meets a mutant in a second instead of a minute. What a
fault outside of all functions changes, such as the default of a field, is fixed when a module is imported: those are left to
`running.py`.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import resource
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NoReturn

import coverage
import msgspec
import pytest
from _pytest.main import pytest_runtestloop as run_tests

from tests.mutation.mutants import Mutant, node_of, plant
from tests.rooms import ROOT, own_file

MET_S = 120
"""A mutant whose tests take longer is killed, and counts as found."""

Lines = Mapping[tuple[str, int], tuple[str, ...]]
"""By module and line: the tests that come by it, the quickest first."""


def functions(code: CodeType) -> Iterator[CodeType]:
    """The functions and methods of a compiled module, without what is inside of them."""
    for const in code.co_consts:
        if isinstance(const, CodeType):
            if const.co_flags & inspect.CO_NEWLOCALS:  # the body of a class has none
                yield const
            else:
                yield from functions(const)


def changed(mutant: Mutant) -> CodeType | None:
    """The function that a mutant changes, as changed; None if it changes none."""
    path = ROOT / mutant.module
    text = path.read_text(encoding="utf-8")
    was = functions(compile(text, str(path), "exec"))
    becomes = functions(compile(plant(text, mutant.number), str(path), "exec"))
    new = [code for code, old in zip(becomes, was, strict=True) if not _same(code, old)]
    return new[0] if len(new) == 1 and function_of(mutant.module, new[0].co_qualname) else None


def _same(one: CodeType, other: CodeType) -> bool:
    """Whether two functions do the same, wherever they stand. Their own comparison takes 1 and True for equal."""
    if (one.co_code, one.co_names, len(one.co_consts)) != (other.co_code, other.co_names, len(other.co_consts)):
        return False
    pairs = zip(one.co_consts, other.co_consts, strict=True)
    return all(
        _same(a, b) if isinstance(a, CodeType) and isinstance(b, CodeType) else repr(a) == repr(b) for a, b in pairs
    )


def function_of(module: str, qualname: str) -> FunctionType | None:
    """The live function of a name, through properties and caches."""
    found: Any = importlib.import_module(module.removesuffix(".py").replace("/", "."))
    for name in qualname.split("."):
        found = getattr(found, name, None) if not isinstance(found, type) else found.__dict__.get(name)
    found = getattr(found, "fget", None) or getattr(found, "__wrapped__", None) or found
    found = getattr(found, "__func__", found)
    return found if isinstance(found, FunctionType) else None


def _reached(mutant: Mutant, lines: Lines, items: Mapping[str, pytest.Item]) -> list[pytest.Item]:
    """The tests that come by a mutant, its own file's first."""
    node = node_of((ROOT / mutant.module).read_text(encoding="utf-8"), mutant.number)
    span = range(node.lineno, (node.end_lineno or node.lineno) + 1)
    found = dict.fromkeys(test for line in span for test in lines.get((mutant.module, line), ()))
    own = own_file(mutant.module)
    return sorted((items[name] for name in found), key=lambda item: not item.nodeid.startswith(own))


class Survey:
    """Runs all tests once: which of them come by which line."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._measured = coverage.Coverage(
            data_file=None, include=[str(ROOT / m) for m in modules], config_file=False, messages=False
        )
        self._modules = modules
        self._took: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """A test."""
        self._measured.switch_context(item.nodeid)
        began = time.perf_counter()
        try:
            return (yield)
        finally:
            self._took[item.nodeid] = time.perf_counter() - began

    def run(self, session: pytest.Session) -> bool:
        """Whether all of them passed."""
        session.config.pluginmanager.register(self, "survey")
        self._measured.start()
        try:
            run_tests(session)
        finally:
            self._measured.stop()
        return session.testsfailed == 0

    def lines(self) -> Lines:
        """What it found."""
        data = self._measured.get_data()
        return {
            (module, line): tuple(sorted((t for t in tests if t), key=self._took.__getitem__))
            for module in self._modules
            for line, tests in data.contexts_by_lineno(str(ROOT / module)).items()
        }


class Meeting:
    """A plugin that meets mutants in place of the tests' own loop. `out` is a pipe that is told `NUMBER killed`, or `NUMBER survived`, of
    each that changes a function."""

    def __init__(self, mutants: Sequence[Mutant], jobs: int, out: int) -> None:
        self._mutants, self._jobs, self._out = mutants, jobs, out

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """All tests are collected."""
        items = {item.nodeid: item for item in session.items}
        codes = {n: code for n, m in enumerate(self._mutants) if (code := changed(m)) is not None}
        lines = _surveyed(session, sorted({self._mutants[n].module for n in codes}))
        running: dict[int, int] = {}
        waiting = list(codes)
        while waiting or running:
            while waiting and len(running) < self._jobs:
                n = waiting.pop(0)
                mutant = self._mutants[n]
                running[_child(session, codes[n], mutant.module, _reached(mutant, lines, items))] = n
            pid, status = os.wait()
            fate = "killed" if status else "survived"
            os.write(self._out, f"{running.pop(pid)} {fate}\n".encode())
        return True


def _silenced() -> None:
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silence, stream)


def _surveyed(session: pytest.Session, modules: Sequence[str]) -> Lines:
    """The lines of a survey in a child. Raises RuntimeError where tests fail without any fault."""
    if not modules:
        return {}
    with tempfile.NamedTemporaryFile() as file:
        pid = os.fork()
        if not pid:
            _survey(session, modules, Path(file.name))
        _, status = os.waitpid(pid, 0)
        if status:
            raise RuntimeError("without any fault these tests fail")
        rows = msgspec.json.decode(file.read(), type=list[tuple[str, int, tuple[str, ...]]])
    return {(module, line): tests for module, line, tests in rows}


def _survey(session: pytest.Session, modules: Sequence[str], file: Path) -> NoReturn:
    """In a child: write down what a survey finds."""
    status = 70
    try:
        _silenced()
        survey = Survey(modules)
        if survey.run(session):
            file.write_bytes(msgspec.json.encode([(*at, tests) for at, tests in survey.lines().items()]))
            status = 0
    finally:
        os._exit(status)


def _child(session: pytest.Session, code: CodeType, module: str, items: list[pytest.Item]) -> int:
    """The pid of a child that runs these tests with a fault in place; it ends with 0 if they all pass."""
    pid = os.fork()
    if pid:
        return pid
    status = 70
    try:
        _silenced()
        signal.alarm(MET_S)
        resource.setrlimit(resource.RLIMIT_CPU, (MET_S, MET_S))
        function = function_of(module, code.co_qualname)
        assert function is not None
        function.__code__ = code
        session.items = items
        with contextlib.suppress(session.Failed, session.Interrupted):
            run_tests(session)
        status = 1 if session.testsfailed else 0
    finally:
        os._exit(status)
