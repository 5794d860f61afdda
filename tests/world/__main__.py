"""Run any number of worlds: `python -m tests.world --seeds A-B [--sqlite] [--twice] [--count]`. A failure is shrunk and printed."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.world.caught import measure_all
from tests.world.happenings import TABLE, render
from tests.world.mutants import MUTANTS
from tests.world.runs import report_of, run_seed


def main() -> int:
    """0 if every world held."""
    parser = argparse.ArgumentParser(prog="python -m tests.world", description=__doc__)
    parser.add_argument("--seeds", default="1-100", help="A-B, or one seed")
    parser.add_argument("--sqlite", action="store_true", help="every world on SQLite; without it one in twenty")
    parser.add_argument("--twice", action="store_true", help="run each seed twice and compare the digests")
    parser.add_argument("--keep-going", action="store_true", help="report every failing seed, unshrunk")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--count", action="store_true", help="print what happened in them, and how fast they were")
    parser.add_argument("--write", action="store_true", help="with --count: write FAULTS.md")
    parser.add_argument("--mutants", action="store_true", help="measure the planted defects, and write MUTANTS.md")
    given = parser.parse_args()
    if given.mutants:
        return _mutants()
    first, _, last = given.seeds.partition("-")
    failed, turns, happened, began = 0, [], Counter[str](), time.process_time()
    for seed in range(int(first), int(last or first) + 1):
        ran = run_seed(seed, sqlite=given.sqlite or seed % 20 == 0, twice=given.twice)
        turns.append(ran.turns)
        happened += ran.happened
        if ran.error is not None:
            failed += 1
            print(report_of(ran, shrink=not (given.keep_going or given.no_shrink)))
            if not given.keep_going:
                break
    if given.count:
        _tell(turns, happened, time.process_time() - began, write=given.write)
    print(f"seeds {given.seeds}: {failed} failed")
    return 1 if failed else 0


def _tell(turns: list[int], happened: Counter[str], seconds: float, *, write: bool) -> None:
    page = render(happened, len(turns))
    if write:
        TABLE.write_text(page, encoding="utf-8")
    turns.sort()
    middle = turns[len(turns) // 2]
    print(page)
    print(f"{len(turns) / seconds:.0f} worlds and {sum(turns) / seconds:.0f} turns a second of processor time")
    print(f"turns of a world: least {turns[0]}, median {middle}, mean {sum(turns) / len(turns):.0f}, most {turns[-1]}")


def _mutants() -> int:
    missed = measure_all()
    print(f"{len(MUTANTS)} planted, not caught: {', '.join(missed) or 'none'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
