"""The package: built offline from what is committed, read, and installed where nothing of the repository is."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from email import message_from_bytes, policy
from email.message import EmailMessage
from io import StringIO
from pathlib import Path

import msgspec
import pytest
from rich.console import Console
from rich.markdown import Markdown

from tests.e2e.processes import ROOT

PACKAGES = ("actors", "events", "scripts", "store")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NAME = f"replyledger-{PROJECT['version']}"
BUILD_S = 120.0

Run = Callable[..., subprocess.CompletedProcess[str]]


class Built(msgspec.Struct, frozen=True):
    """What one build made."""

    clone: Path
    wheel: Path
    sdist: Path

    def tracked(self) -> set[str]:
        """The committed files of the four packages that a user needs."""
        listed = _done(["git", "ls-files", *PACKAGES], cwd=self.clone).stdout.splitlines()
        return {name for name in listed if name.endswith((".py", "README.md", "py.typed"))}

    def wheel_names(self) -> set[str]:
        with zipfile.ZipFile(self.wheel) as archive:
            return set(archive.namelist())

    def metadata(self) -> EmailMessage:
        with zipfile.ZipFile(self.wheel) as archive:
            found = message_from_bytes(archive.read(f"{NAME}.dist-info/METADATA"), policy=policy.default)
        assert isinstance(found, EmailMessage)
        return found


def _done(args: list[str], cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PIP_", "REPLYLEDGER_", "XDG_"))}
    done = subprocess.run(
        args,
        cwd=cwd,
        env=kept | {"LANG": "C.UTF-8", "TZ": "UTC", "USER": "reader"} | env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    assert done.returncode == 0, f"{args}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The source archive, and the wheel made from it: so the archive is whole."""
    folder = tmp_path_factory.mktemp("package")
    clone, made = folder / "clone", folder / "made"
    _done(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone)], cwd=folder)
    _done([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(made)], cwd=clone)
    (wheel,), (sdist,) = made.glob("*.whl"), made.glob("*.tar.gz")
    return Built(clone, wheel, sdist)


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs a program of a fresh environment: the wheel, and beside it the packages that the tests have."""
    folder = tmp_path_factory.mktemp("installed")
    venv = folder / "venv"
    python = venv / "bin" / "python"
    _done([sys.executable, "-m", "venv", "--without-pip", str(venv)], cwd=folder)
    install = ["-m", "pip", "--python", str(python), "install", "--quiet", "--no-index", "--no-deps", str(built.wheel)]
    _done([sys.executable, *install], cwd=folder)
    (site,) = venv.glob("lib/python*/site-packages")
    (site / "what-the-tests-have.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    home = folder / "home"
    home.mkdir()

    def run(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        return _done([str(venv / "bin" / args[0]), *args[1:]], cwd, HOME=str(home))

    return run


def test_the_wheel_holds_the_four_packages_and_no_tests(built: Built) -> None:
    about = {name for name in built.wheel_names() if name.startswith(f"{NAME}.dist-info/")}
    assert built.wheel_names() - about == built.tracked()
    assert {f"{NAME}.dist-info/{name}" for name in ("METADATA", "entry_points.txt", "licenses/LICENSE")} < about
    with zipfile.ZipFile(built.wheel) as archive:
        assert "replyledger = scripts.main:main" in archive.read(f"{NAME}.dist-info/entry_points.txt").decode()


def test_the_source_archive_builds_and_has_no_tests_either(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        names = {name.removeprefix(f"{NAME}/") for name in archive.getnames()}
    assert built.tracked() | {"pyproject.toml", "README.md", "LICENSE"} <= names
    assert not [name for name in names if name.split("/")[0] in ("tests", ".ci")]


def test_its_metadata_is_what_the_project_says(built: Built) -> None:
    said = built.metadata()
    assert (said["Name"], said["Version"], said["Summary"]) == (
        PROJECT["name"],
        PROJECT["version"],
        PROJECT["description"],
    )
    assert (said["License-Expression"], said["License-File"]) == ("MIT", "LICENSE")
    assert said["Requires-Python"] == PROJECT["requires-python"]
    assert said.get_all("Classifier") == PROJECT["classifiers"]
    assert set(said.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])
    needs = {need for need in said.get_all("Requires-Dist", []) if "extra ==" not in need}
    assert needs == set(PROJECT["dependencies"])


def test_its_description_is_the_readme_and_can_be_shown(built: Built) -> None:
    said = built.metadata()
    assert said["Description-Content-Type"] == "text/markdown"
    readme = (built.clone / "README.md").read_text(encoding="utf-8")
    assert said.get_content().strip() == readme.strip()
    paper = StringIO()
    Console(file=paper, width=160, color_system=None).print(Markdown(readme))
    shown = paper.getvalue()
    assert all(
        word in shown for word in ("replyledger", "Nothing accepted is lost silently.", "Words", "CHANNEL:ACCOUNT:PEER")
    )
    assert not [mark for mark in ("```", "## ", "| --- |", "**") if mark in shown], (
        "what is left was not read as Markdown"
    )


def test_the_versions_of_python_are_those_of_the_readme(built: Built) -> None:
    """The lowest is required, and each that the classifiers name is named as tried."""
    named = {
        c.rpartition(" ")[2] for c in PROJECT["classifiers"] if c.startswith("Programming Language :: Python :: 3.")
    }
    readme = (built.clone / "README.md").read_text(encoding="utf-8")
    assert f"Needs Python {min(named)} or newer" in readme
    assert PROJECT["requires-python"] == f">={min(named)}"
    (tried,) = (line for line in readme.splitlines() if "are tried" in line)
    assert {version for version in named if version not in tried} == set()


def test_it_runs_where_nothing_of_the_repository_is(installed: Run, tmp_path: Path) -> None:
    place = installed("python", "-c", "import scripts.main; print(scripts.main.__file__)", cwd=tmp_path).stdout
    assert "installed" in place
    assert not place.startswith(str(ROOT))
    assert installed("replyledger", "version", cwd=tmp_path).stdout == f"replyledger {PROJECT['version']}\n"
    example = installed("replyledger", "config", "example", cwd=tmp_path).stdout
    assert tomllib.loads(example)["accounts"]["main"]["channel"] == "weixin"


@pytest.mark.slow
def test_its_demo_plays_where_nothing_of_the_repository_is(installed: Run, tmp_path: Path) -> None:
    assert "Phone and ledger agree" in installed("replyledger", "demo", cwd=tmp_path).stdout
    assert (tmp_path / "demo-log" / "state" / "log.sqlite").is_file()
