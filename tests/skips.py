"""A pytest plugin: where CI=true, a test that is skipped for a reason not in EXPECTED has failed. A green run has run everything."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

EXPECTED = frozenset(
    {"abstract sockets are Linux's", "rights are those of POSIX", "atheris has no wheel for this Python or machine"}
)
"""What another operating system, or version of Python, cannot have. A missing tool is none of these: CI has it."""


def _judge(report: pytest.TestReport | pytest.CollectReport) -> None:
    if os.environ.get("CI") != "true" or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr).removeprefix(
        "Skipped: "
    )
    if reason not in EXPECTED:
        report.outcome = "failed"
        report.longrepr = f"skipped in CI, which nobody expects: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skipped test."""
    report = yield
    _judge(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A skipped module."""
    report = yield
    _judge(report)
    return report
