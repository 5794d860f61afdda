"""`python -m tests.fuzz --target NAME|all --seconds S [--seed N] [--chance] [--keep FOLDER]`: searches for inputs that break a parser.

Guided by atheris where that is installed (`pip install '.[fuzz]'`), else, and with --chance, by changes drawn from `--seed` on. Exit
code 1 and the input, made small, when something is found: put it into tests/fuzz/corpus/NAME/ and mend the parser.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.fuzz import searching
from tests.fuzz.targets import TARGETS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=[*TARGETS, "all"], default="all")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--chance", action="store_true", help="without atheris")
    parser.add_argument(
        "--keep", type=Path, help="where atheris leaves inputs that reached new lines, a folder for each target"
    )
    given = parser.parse_args()
    is_guided = searching.is_guided() and not given.chance
    if not is_guided and not given.chance:
        print(f"by chance: {searching.WITHOUT_ATHERIS}", file=sys.stderr)
    faults = 0
    for name in TARGETS if given.target == "all" else [given.target]:
        if is_guided:
            fault, words = searching.guided(name, given.seconds, given.keep and given.keep / name)
            runs = [line.split()[-1] for line in words.splitlines() if "number_of_executed_units" in line]
            how = f"{runs[0] if runs else '?'} runs"
        else:
            fault, how = searching.by_chance(name, given.seconds, given.seed), "by chance"
        print(f"{name}: {'FAULT' if fault else 'nothing'} ({how})", flush=True)
        if fault:
            faults += 1
            print(f"  {fault.said}\n  {fault.data!r}", flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
