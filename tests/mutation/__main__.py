"""Mutation testing of the folds and the deciders: `python -m tests.mutation [--sample N] [--seed S] [MODULE …]`.

Without `--sample` every mutant is met: half an hour on two idle cores. A sample is drawn by a seed, by default a digest of the modules, so
that a commit has one sample and the next change another. Survivors are printed; those of `equivalent.txt` change nothing that anybody
could see, each with its reason, and are not counted. Exit 1 if fewer than THRESHOLD of the others were killed.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.mutation.mutants import Mutant, mutants
from tests.mutation.running import Met, meet
from tests.rooms import ROOT

PACKAGES = ("events", "actors/deciding")
THRESHOLD = 0.8
"""Of the mutants of a run. It goes up as survivors are met by tests."""
EQUIVALENT = Path(__file__).with_name("equivalent.txt")


def modules(given: Sequence[str]) -> list[str]:
    """The modules to plant faults in."""
    found = given or [str(p.relative_to(ROOT)) for package in PACKAGES for p in sorted((ROOT / package).glob("*.py"))]
    return [name for name in found if not name.endswith("__init__.py")]


def equivalent() -> dict[str, str]:
    """Names of mutants that nobody could tell from the original, with the reason: two lines each."""
    lines = [line for line in EQUIVALENT.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    names, reasons = lines[::2], lines[1::2]
    assert all(reason.startswith("  ") for reason in reasons), f"{EQUIVALENT.name} is out of step"
    return dict(zip(names, map(str.strip, reasons), strict=True))


def every(names: Sequence[str]) -> list[Mutant]:
    """All mutants but the equivalent ones."""
    known = equivalent()
    found = [m for name in names for m in mutants(name, (ROOT / name).read_text(encoding="utf-8"))]
    return [m for m in found if m.name not in known]


def digest(names: Sequence[str]) -> str:
    """What the modules say, as a seed."""
    return hashlib.sha256(b"".join((ROOT / name).read_bytes() for name in names)).hexdigest()[:16]


def told(met: Iterator[Met], total: int) -> tuple[int, list[Mutant]]:
    """(how many were killed, the survivors), said as they come."""
    killed, survivors = 0, []
    for number, one in enumerate(met, 1):
        if one.fate == "killed":
            killed += 1
            continue
        survivors.append(one.mutant)
        m = one.mutant
        print(f"survived ({number} of {total})  {m.module}:{m.line}  {m.what}\n    {m.code}", flush=True)
    return killed, survivors


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("modules", nargs="*", help="default: events/ and actors/deciding/")
    parser.add_argument("--sample", type=int, help="this many, drawn by the seed")
    parser.add_argument("--seed", help="default: a digest of the modules")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args(arguments)
    names = modules(given.modules)
    chosen, seed = every(names), given.seed or digest(names)
    total = len(chosen)
    if given.sample is not None:
        chosen = random.Random(seed).sample(chosen, min(given.sample, total))
    print(f"{len(chosen)} of {total} mutants of {len(names)} modules, seed {seed}", flush=True)
    killed, survivors = told(meet(chosen, given.jobs), len(chosen))
    print(f"{killed} of {len(chosen)} mutants killed, {len(survivors)} survived")
    return 0 if killed >= THRESHOLD * len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
