"""A skip that nobody expects fails in CI, and nowhere else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.skips import EXPECTED
from tests.tidy.source import ROOT

WAYS = {
    "mark": "import pytest\n@pytest.mark.skip(reason={reason!r})\ndef test_x(): pass\ndef test_y(): pass",
    "condition": "import pytest\n@pytest.mark.skipif(True, reason={reason!r})\ndef test_x(): pass\ndef test_y(): pass",
    "call": "import pytest\ndef test_x(): pytest.skip({reason!r})\ndef test_y(): pass",
    "fixture": "import pytest\n@pytest.fixture\ndef f(): pytest.skip({reason!r})\ndef test_x(f): pass\ndef test_y(): pass",
    "module": "import pytest\npytest.skip({reason!r}, allow_module_level=True)",
}


def run(folder: Path, text: str, ci: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(text, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.skips", "-p", "no:cacheprovider", str(folder)],
        cwd=folder,
        env=os.environ | {"CI": ci, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("way", WAYS)
def test_an_unexpected_skip_fails_in_ci(way: str, tmp_path: Path) -> None:
    ended = run(tmp_path, WAYS[way].format(reason="no fortune"), "true")
    assert ended.returncode not in (0, 5), ended.stdout
    assert "nobody expects: no fortune" in ended.stdout


def test_an_expected_one_and_one_outside_of_ci_do_not(tmp_path: Path) -> None:
    for reason, ci in ((min(EXPECTED), "true"), ("no fortune", "")):
        ended = run(tmp_path, WAYS["call"].format(reason=reason), ci)
        assert ended.returncode == 0, ended.stdout
        assert "1 passed, 1 skipped" in ended.stdout


def test_every_expected_reason_is_one_that_a_test_gives() -> None:
    files = [p for p in (ROOT / "tests").rglob("test_*.py") if p.name != Path(__file__).name]
    texts = "".join(p.read_text(encoding="utf-8") for p in files)
    assert not [reason for reason in EXPECTED if reason not in texts]


def test_the_suite_uses_the_plugin() -> None:
    assert "tests.skips" in (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8")
