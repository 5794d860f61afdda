"""What every test shares: how hypothesis behaves on a busy machine, and that CI skips nothing unexpected."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.skips import pytest_make_collect_report, pytest_runtest_makereport

__all__ = ["pytest_make_collect_report", "pytest_runtest_makereport"]

settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("steady")
