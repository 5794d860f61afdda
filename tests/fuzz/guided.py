"""A target under atheris, which sees which lines an input reaches: `python -m tests.fuzz.guided NAME CORPUS ARTIFACTS SECONDS`.

A process of its own: libFuzzer never gives one back. It ends with 0 after its time; with another code it has left the input that failed
in ARTIFACTS. New inputs that reached new lines go to CORPUS.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(
    include=["actors", "events", "scripts", "store", "tests"], enable_loader_override=False
):
    from tests.fuzz.shaping import MB, changed
    from tests.fuzz.targets import CORPUS, TARGETS

INPUT_BYTES_MAX = 65_536
"""Larger ones are tried by `test_fuzz.py`; they would only slow the search down."""


def mutated(data: bytes, most: int, seed: int) -> bytes:
    """libFuzzer's own changes half of the time, ours otherwise."""
    dice = random.Random(seed)
    if dice.random() < 0.5:
        return bytes(atheris.Mutate(data, most))
    return changed(data, dice, min(most, MB))


def run(name: str, corpus: Path, artifacts: Path, seconds: int) -> None:
    """Search for `seconds`, beginning with what is kept. Does not return."""
    check: Callable[[bytes], None] = TARGETS[name].check
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={INPUT_BYTES_MAX}",
        f"-artifact_prefix={artifacts}/",
        "-rss_limit_mb=2048",
        "-timeout=20",
        "-print_final_stats=1",
    ]
    atheris.Setup(
        [name, *options, str(corpus), *([str(CORPUS / name)] if (CORPUS / name).is_dir() else [])],
        check,
        custom_mutator=mutated,
    )
    atheris.Fuzz()


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
