from __future__ import annotations

import pytest

from actors.runtime.clock import SeededIds
from actors.runtime.supervision import Backoff, FailureRow

POLICY = Backoff(base_ms=100, cap_ms=1_000, give_up_after=8, healthy_ms=5_000)


@pytest.mark.parametrize(("failures", "full_ms"), [(1, 100), (2, 200), (3, 400), (4, 800), (5, 1_000), (10_000, 1_000)])
def test_waits_double_up_to_the_cap_with_jitter(failures: int, full_ms: int) -> None:
    waits = [POLICY.wait_ms(failures, SeededIds(seed)) for seed in range(200)]
    assert full_ms // 2 <= min(waits) < full_ms * 0.6
    assert full_ms * 0.9 < max(waits) <= full_ms


def test_failures_count_in_a_row_until_a_healthy_period() -> None:
    row = FailureRow()
    assert row.count(0, POLICY) == 1
    assert row.count(1_000_000, POLICY) == 2  # no successor ran in between
    row.restarted_ms = 1_000_000
    assert row.count(1_004_999, POLICY) == 3
    row.restarted_ms = 2_000_000
    assert row.count(2_005_000, POLICY) == 1
