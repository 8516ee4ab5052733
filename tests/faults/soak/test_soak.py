"""A short soak; and one whose application leaks, which must fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.soak.running import Plan, Soak

pytestmark = [pytest.mark.alone, pytest.mark.slow]


@pytest.mark.timeout(180)
def test_nothing_is_lost_and_nothing_grows(tmp_path: Path) -> None:
    outcome = Soak(Plan(30, sample_every_s=1), tmp_path).run()
    # In so little time, memory still gets its size: it is judged by the soak itself.
    assert not [reason for reason in outcome.reasons if "KiB grow" not in reason]
    assert outcome.complete > 500


@pytest.mark.timeout(120)
def test_a_leak_is_detected(tmp_path: Path) -> None:
    plan = Plan(15, sample_every_s=0.5, interfaces=("native",), env={"LEAK_BYTES": "100000"})
    outcome = Soak(plan, tmp_path).run()
    growing = [reason for reason in outcome.reasons if "worker 1: KiB grow" in reason]
    assert growing, outcome.trends
