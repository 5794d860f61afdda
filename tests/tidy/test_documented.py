"""Every verb, option, exit code, setting and metric is documented where a user finds it; and nothing is that is not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import msgspec
import pytest
from typer.main import get_command

from scripts import options
from scripts.configuration.example import EXAMPLE
from scripts.configuration.schema import AccountTable, File
from scripts.exits import ExitCode
from scripts.main import VERBS, _app
from tests.tidy.source import ROOT, chained, modules

MANUAL = (ROOT / "scripts" / "README.md").read_text(encoding="utf-8")
LISTENERS = (ROOT / "actors" / "gateway" / "README.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")

COMMON = {"--offline", "--log"}
"""Options of many verbs, told once, below the table."""


def commands(verb: str, command: Any) -> Iterator[tuple[str, Any]]:
    """(`backlog list`, its command) of every command of a verb."""
    below = getattr(command, "commands", None)
    if below is None:
        yield verb, command
        return
    for name, each in below.items():
        yield from commands(f"{verb} {name}", each)


COMMANDS = [found for verb, (target, _) in VERBS.items() for found in commands(verb, get_command(_app(target)))]


def rows(text: str, heading: str) -> list[list[str]]:
    """The cells of the table whose first line begins with a heading."""
    found = re.search(rf"^\| {re.escape(heading)} \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert found, f"no table of {heading}"
    return [[cell.strip() for cell in line.strip("|").split(" |")] for line in found[1].splitlines()]


def told(text: str) -> dict[str, set[str]]:
    """Each command of the table of verbs, with the options in its row."""
    table = rows(text, "verb")
    return {
        name: set(re.findall(r"--[a-z][a-z-]*", row[2]))
        for row in table
        for name in re.findall(r"`([a-z][a-z ]*)`", row[0])
    }


def names(parameter: Any) -> set[str]:
    """The long names of an option; nothing for an argument."""
    return (
        {name for name in parameter.opts if name.startswith("--")} if parameter.param_type_name == "option" else set()
    )


# --- the command line -------------------------------------------------------------------------------------------------


def test_the_table_of_verbs_names_every_command_and_no_other() -> None:
    assert sorted(told(MANUAL)) == sorted(name for name, _ in COMMANDS)


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=[name for name, _ in COMMANDS])
def test_every_option_stands_in_the_row_of_its_verb(name: str, command: Any) -> None:
    given = set().union(*map(names, command.params))
    row = told(MANUAL)[name]
    assert not given - row - COMMON, f"scripts/README.md does not tell of these options of {name}"


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=[name for name, _ in COMMANDS])
def test_every_option_and_command_has_its_help(name: str, command: Any) -> None:
    assert command.help, f"{name} does not say what it does"
    mute = [p.name for p in command.params if names(p) and not p.help]
    assert not mute, f"{name} --help is silent about {mute}"


def test_the_table_of_verbs_tells_of_no_option_that_is_not() -> None:
    known: dict[str, set[str]] = {}
    for name, command in COMMANDS:
        known.setdefault(name.split()[0], set()).update(*map(names, command.params))
    for name, row in told(MANUAL).items():
        assert not row - known[name.split()[0]], f"{name} has no such options"


@pytest.mark.parametrize("option", sorted(COMMON))
def test_common_options_are_told_once(option: str) -> None:
    assert any(option in names(p) for _, command in COMMANDS for p in command.params)
    assert re.search(rf"^[^|\n]*`{option}\b", MANUAL, re.MULTILINE)


def test_global_options_are_told() -> None:
    for option in re.findall(r"^  (?:-\w, )?(--[a-z]+)", options.HELP, re.MULTILINE):
        short = f"-{option[2]}"
        assert f"`{option}" in MANUAL or f"`{short}`" in MANUAL, option


def test_exit_codes_are_told_with_no_other() -> None:
    assert [int(row[0]) for row in rows(MANUAL, "exit code")] == [int(code) for code in ExitCode]


def test_the_readme_tells_of_the_exit_codes_that_a_job_or_a_supervisor_meets() -> None:
    for code in (ExitCode.DONE, ExitCode.WAITING, ExitCode.REPLACED):
        assert re.search(rf"(exit|exit code|;|Exit code) {int(code)}\b", README), code


# --- settings ---------------------------------------------------------------------------------------------------------


def settings(table: type[msgspec.Struct] = File, prefix: str = "") -> Iterator[tuple[str, str, Any]]:
    """(table of the file, key, type) of every setting."""
    for field in msgspec.structs.fields(table):
        kind = AccountTable if field.name == "accounts" else field.type
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            yield from settings(kind, "accounts.main" if kind is AccountTable else f"{prefix}.{field.name}".strip("."))
        else:
            yield prefix, field.name, kind


SETTINGS = list(settings())


def paragraph(table: str, key: str) -> str:
    """The lines of the example between blank ones that hold a key, if it is told in its table."""
    section = ""
    for part in EXAMPLE.split("\n\n"):
        for line in part.splitlines():
            section = line[1:-1] if re.fullmatch(r"\[[a-z.]+\]", line) else section
            if section == table and re.match(rf"(# )?{key} = ", line):
                return part
    return ""


@pytest.mark.parametrize(("table", "key", "kind"), SETTINGS, ids=[f"{t}.{k}".strip(".") for t, k, _ in SETTINGS])
def test_every_setting_is_in_the_example_with_its_meaning(table: str, key: str, kind: Any) -> None:
    said = paragraph(table, key)
    assert said, f"`config example` has no {key} in [{table}]"
    lines = [line for line in said.splitlines() if not re.match(r"# [a-z_]+ = ", line)]
    assert any("#" in line for line in lines), f"the example does not say what {key} means"
    for choice in choices(kind):
        assert choice in said, f"the example does not say that {key} may be {choice}"


def choices(kind: Any) -> set[str]:
    """The words that a setting may be."""
    if get_origin(kind) is Literal:
        return set(map(str, get_args(kind)))
    return set().union(*map(choices, get_args(kind))) if get_args(kind) else set()


def test_every_setting_is_found() -> None:
    assert {"accounts.main.policy", "accounts.main", "http", "agents", "logging", "retention", ""} == {
        t for t, _, _ in SETTINGS
    }


# --- metrics ----------------------------------------------------------------------------------------------------------

FAMILIES = re.compile(r"(Counter|Gauge|Histogram|Summary|Info|Enum)(MetricFamily)?")


def metrics() -> Iterator[tuple[str, str, set[str]]]:
    """(where, name as it is scraped, labels) of every metric that the program makes."""
    for module in modules("store", "actors", "scripts"):
        if "prometheus_client" not in module.text:
            continue
        for node in ast.walk(module.tree):
            made = FAMILIES.fullmatch(chained(node.func).rpartition(".")[2]) if isinstance(node, ast.Call) else None
            if made and isinstance(node, ast.Call):
                name = ast.literal_eval(node.args[0])
                yield module.name, name + "_total" * (made[1] == "Counter"), _labels(node)


def _labels(node: ast.Call) -> set[str]:
    given = [k.value for k in node.keywords if k.arg in ("labels", "labelnames")] + node.args[2:3]
    return {label for value in given for label in ast.literal_eval(value)}


METRICS = list(metrics())


def test_metrics_are_found() -> None:
    assert {name for _, name, _ in METRICS} >= {"replyledger_events_total", "replyledger_account_state"}


@pytest.mark.parametrize(("where", "name", "labels"), METRICS, ids=[name for _, name, _ in METRICS])
def test_every_metric_is_told_with_its_labels(where: str, name: str, labels: set[str]) -> None:
    row = next((line for line in LISTENERS.splitlines() if line.startswith("|") and name in line), "")
    assert row, f"actors/gateway/README.md does not tell of {name} ({where})"
    assert not {label for label in labels if not re.search(rf"\b{label}\b", row.replace(name, ""))}


def test_every_metric_is_told_once() -> None:
    told = re.findall(r"^\| `(replyledger_[a-z_]+)` ", LISTENERS, re.MULTILINE)
    assert len(told) == len(set(told)), "two rows may say two things"


def test_no_metric_is_told_that_is_not() -> None:
    assert set(re.findall(r"\breplyledger_[a-z_]+[a-z]", LISTENERS)) <= {name for _, name, _ in METRICS}
