"""Branch coverage: `./scripts/test --cover [ARGUMENTS OF PYTEST]`.

Says of each package which of its branches the tests took, and of each module which of them its own test file took: the one of its
name in its room, else its whole room. What runs in processes of their own (`e2e/`, the demo) is not counted.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage
import msgspec
import pytest

from tests.rooms import ROOT, own_file, room_of

PACKAGES = ("events", "store", "actors", "scripts")


class Covered(msgspec.Struct, frozen=True, kw_only=True):
    """What was taken of a module: its branches, or its lines where it has none."""

    module: str
    taken: int
    total: int
    missing: tuple[str, ...] = ()

    @property
    def percent(self) -> float:
        return 100 * self.taken / self.total if self.total else 100.0


class ByFile:
    """A plugin: what a test runs is filed under its test file; what importing runs, under nothing."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self._measured = measured

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """A test begins."""
        self._measured.switch_context(str(item.path.relative_to(ROOT)))

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self) -> None:
        """A test is over."""
        self._measured.switch_context("")


def own_tests(module: str) -> str:
    """A pattern of the test files that a module calls its own."""
    file = own_file(module)
    return f"^{re.escape(file)}$" if file else f"^{re.escape(room_of(module))}/"


def covered(measured: coverage.Coverage, **only: Any) -> Iterator[Covered]:
    """What was taken of each module, or of those in `include` by those in `contexts`."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        try:
            measured.json_report(outfile=file.name, **only)
        except coverage.exceptions.NoDataError:
            return
        found = json.loads(Path(file.name).read_bytes())["files"]
    for name, each in found.items():
        said = each["summary"]
        kind = ("covered_branches", "num_branches") if said["num_branches"] else ("covered_lines", "num_statements")
        missing = tuple(f"{a}->{b}" if b > 0 else f"{a}->exit" for a, b in each["missing_branches"])
        yield Covered(module=name, taken=said[kind[0]], total=said[kind[1]], missing=missing)


def by_own_tests(measured: coverage.Coverage, modules: list[str]) -> list[Covered]:
    """Each module by its own tests, the least covered first."""
    rows = [
        row
        for module in modules
        for row in covered(measured, include=[str(ROOT / module)], contexts=[own_tests(module), "^$"])
    ]
    return sorted(rows, key=lambda row: (row.percent, row.module))


def report(measured: coverage.Coverage) -> None:
    """Print both tables."""
    every = list(covered(measured))
    print("\nbranches taken by any test")
    for package in PACKAGES:
        rows = [row for row in every if row.module.startswith(f"{package}/")]
        print(_line(Covered(module=package, taken=sum(r.taken for r in rows), total=sum(r.total for r in rows))))
    print("\nbranches taken by a module's own tests")
    for row in by_own_tests(measured, [row.module for row in every]):
        print(_line(row))


def _line(row: Covered) -> str:
    some = " ".join(row.missing[:8]) + (" …" if len(row.missing) > 8 else "")
    return f"{row.percent:6.1f} %  {row.taken:5} of {row.total:5}  {row.module}  {some}".rstrip()


def main(arguments: list[str]) -> int:
    """Run the tests, print the tables; the exit code is pytest's."""
    measured = coverage.Coverage(
        data_file=None, branch=True, source=[str(ROOT / p) for p in PACKAGES], config_file=False
    )
    measured.start()
    code = pytest.main(arguments, plugins=[ByFile(measured)])
    measured.stop()
    report(measured)
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
