"""Runs a target for as long as you like: guided by atheris where it is installed, else by chance."""

from __future__ import annotations

import importlib.util
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.shaping import changed
from tests.fuzz.targets import TARGETS, corpus

ROOT = Path(__file__).parents[2]
WITHOUT_ATHERIS = "atheris is not installed: pip install '.[fuzz]' (it has wheels for Linux on x86-64 alone)"


@dataclass(frozen=True)
class Fault:
    """An input that a target fails on, and what it says."""

    data: bytes
    said: str


def is_guided() -> bool:
    """Whether atheris is here."""
    return importlib.util.find_spec("atheris") is not None


def is_possible() -> bool:
    """Whether the lock has atheris for this Python and machine: there it must be installed."""
    return sys.platform == "linux" and platform.machine() == "x86_64" and sys.version_info < (3, 14)


def failure(name: str, data: bytes) -> str:
    """What a target says of an input; "" if all is well."""
    try:
        TARGETS[name].check(data)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:500]
    return ""


def by_chance(name: str, seconds: float, seed: int = 0) -> Fault | None:
    """Changes to what is kept, from `seed` on; the first that fails, made as small as it gets within a moment."""
    kept = list(corpus(name).values())
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        seed += 1
        dice = random.Random(seed)
        data = changed(dice.choice(kept), dice)
        if failure(name, data):
            data = smaller(name, data)
            return Fault(data, failure(name, data))
    return None


def smaller(name: str, data: bytes) -> bytes:
    """An input that fails with the same kind of error, with pieces left out."""
    kind = failure(name, data).partition(":")[0]
    size = max(1, len(data) // 2)
    while size:
        at = 0
        while at < len(data):
            shorter = data[:at] + data[at + size :]
            if failure(name, shorter).partition(":")[0] == kind:
                data = shorter
            else:
                at += size
        size //= 2
    return data


def guided(name: str, seconds: int, keep: Path | None = None) -> tuple[Fault | None, str]:
    """What atheris finds, and its last words. New inputs are left in `keep`, if that is given."""
    with tempfile.TemporaryDirectory(prefix="replyledger-fuzz-") as folder:
        found, artifacts = Path(keep or Path(folder, "corpus")), Path(folder, "artifacts")
        for path in (found, artifacts):
            path.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "tests.fuzz.guided", name, str(found), str(artifacts), str(seconds)]
        env = os.environ | {"TMPDIR": folder}  # libFuzzer ends a process without cleaning up
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, errors="replace", check=False)
        words = done.stderr.strip()[-2_000:]
        left = sorted(artifacts.iterdir())
        if left:
            data = smaller(name, left[0].read_bytes())
            return Fault(data, failure(name, data) or words), words
        if done.returncode:
            raise RuntimeError(f"atheris ended with {done.returncode}: {done.stdout[-500:]}{words}")
        return None, words
