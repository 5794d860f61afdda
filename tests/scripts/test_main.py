from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from scripts import main, options
from scripts.exits import ExitCode, Misused
from tests.scripts.console import Console


@pytest.mark.parametrize(
    ("args", "rest", "expected"),
    [
        (["send", "--json", "x"], ["send", "x"], options.Options(json=True)),
        (["--json", "-q", "send"], ["send"], options.Options(json=True, quiet=True)),
        (["-v", "a", "-vv"], ["a"], options.Options(verbose=3)),
        (["--verbose", "a", "--verbose"], ["a"], options.Options(verbose=2)),
        (["a", "--config", "x.toml"], ["a"], options.Options(config=Path("x.toml"))),
        (["a", "--config=x.toml"], ["a"], options.Options(config=Path("x.toml"))),
        (["a", "--", "--json", "-q"], ["a", "--", "--json", "-q"], options.Options()),
        (["a", "-"], ["a", "-"], options.Options()),
    ],
)
def test_global_options_stand_anywhere(args: list[str], rest: list[str], expected: options.Options) -> None:
    assert options.split(args) == (expected, rest)


@pytest.mark.parametrize("args", [["--config"], ["a", "--config="]])
def test_config_takes_a_file(args: list[str]) -> None:
    with pytest.raises(Misused):
        options.split(args)


def test_every_verb_is_there() -> None:
    for target, about in main.VERBS.values():
        assert about
        assert main._app(target).registered_commands


def test_exit_codes_are_those_of_the_design() -> None:
    assert sorted(ExitCode) == [0, 1, 2, 69, 75, 77, 78, 79]


def test_help_lists_every_verb_and_imports_none(capsys: pytest.CaptureFixture[str]) -> None:
    before = set(sys.modules)
    assert main.main(["--help"]) == 0
    assert set(sys.modules) == before
    out = capsys.readouterr().out
    assert all(f"\n  {verb} " in out for verb in main.VERBS)


async def test_usage_is_2(lonely: Console) -> None:
    for args, says in (
        ([], ""),
        (["stauts"], "did you mean `status`?"),
        (["--nonsense"], "unknown option --nonsense"),
        (["status", "--nonsense"], "No such option"),
        (["bind", "x"], "SESSION"),
        (["config"], "Missing command"),
        (["pause", "weixin:main", "--for", "2"], "no unit"),
        (["pause", "weixin:main", "--for", "31d"], "is not between"),
        (["erase"], "exactly one of"),
        (["erase", "--peer", "x"], "confirm it with --yes"),
    ):
        ended = await lonely.run(*args)
        assert ended.code == 2, (args, ended)
        assert says in ended.err


async def test_configuration_refused_is_78(lonely: Console) -> None:
    config = lonely.folder / "replyledger.toml"
    ended = await lonely.run("status", "--config", "nowhere.toml")
    assert ended.code == 78
    config.write_text(config.read_text() + 'acess = ["owner"]\n')
    for verb in (
        ["status"],
        ["config", "check"],
        ["send", "-t", "weixin:main", "x"],
        ["login", "weixin", "-a", "main"],
    ):
        ended = await lonely.run(*verb)
        assert (ended.code, ended.out) == (78, "")
        assert "accounts.main.acess: unknown key 'acess'; did you mean 'access'?" in ended.err
    config.unlink()
    ended = await lonely.run("status")
    assert ended.code == 78
    assert "config example" in ended.err


async def test_a_complaint_cannot_command_the_terminal(lonely: Console) -> None:
    odd = lonely.folder / "\x1b]0;title\x07\u202eodd"
    ended = await lonely.run("status", "--config", str(odd))
    assert ended.code == 78
    assert "\ufffd]0;title" in ended.err
    assert not {"\x1b", "\x07", "\u202e"} & set(ended.err)


async def test_a_missing_secret_is_78_and_named(lonely: Console) -> None:
    del lonely.env["RL_TOKEN"]
    for verb in (["status"], ["config", "check"]):
        ended = await lonely.run(*verb)
        assert ended.code == 78
        assert "http.token: the environment variable RL_TOKEN is not set" in ended.err


async def test_config_verbs(lonely: Console) -> None:
    ended = await lonely.run("config", "check", "--json")
    assert (ended.code, ended.rows[0]["ok"], ended.rows[0]["accounts"]) == (0, True, ["weixin:main"])
    example = await lonely.run("config", "example")
    (lonely.folder / "other.toml").write_text(example.out, encoding="utf-8")
    assert (await lonely.run("config", "check", "--config", "other.toml")).code == 0
    shown = await lonely.run("config", "show", "-q")
    assert (shown.code, shown.err) == (0, "")
    assert 'token = "env:RL_TOKEN"' in shown.out
    schema = await lonely.run("config", "schema")
    assert '"$schema"' in schema.out


async def test_version(lonely: Console) -> None:
    ended = await lonely.run("version", "--json")
    assert set(ended.rows[0]) == {"version", "python", "sqlite", "system"}
    assert (await lonely.run("--version")).out.startswith("replyledger ")


async def test_a_reader_that_has_seen_enough_is_no_traceback(lonely: Console) -> None:
    command = f'"{sys.executable}" -m scripts config schema | :'
    process = await asyncio.create_subprocess_shell(
        command, cwd=lonely.folder, env=lonely.env, stderr=asyncio.subprocess.PIPE
    )
    _, err = await process.communicate()
    assert err == b""


async def test_an_encoding_that_knows_little_is_no_traceback(lonely: Console) -> None:
    lonely.env |= {"PYTHONIOENCODING": "ascii"}
    ended = await lonely.run("bind", "weixin:main:ü", "会话", "--config", "ü.toml")
    assert ended.code == 78
    assert "\\xfc.toml" in ended.err
