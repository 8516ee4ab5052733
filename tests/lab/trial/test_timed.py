"""Processor time inside the application, and what is left for the server."""

from __future__ import annotations

from pathlib import Path

import pytest

from bolide.lab import race
from bolide.lab.plan import contestant
from bolide.lab.trial import timed
from lab.tiny_race import Silent, options, study, trials_of, workload


def test_what_measuring_takes_is_nobodys_time() -> None:
    before = timed.Counted(10, 1e6, 20, 300.0, 1000.0)
    after = timed.Counted(110, 3e6, 220, 300.0, 1000.0)
    counted = after.since(before)
    assert (counted.requests, counted.application_ns, counted.spans) == (100, 2e6, 200)
    # 100 requests: 2 ms in the application, of which 200 readings of 0.3 us are none of its time;
    # 200 more, and 1 us for each request, are outside of it.
    application_us, own_us = counted.shares(0.005, 100)
    assert application_us == pytest.approx((2000 - 60) / 100)
    assert own_us == pytest.approx((5000 - 2000 - 60) / 100 - 1.0)


def test_a_response_that_the_application_has_not_counted_is_a_failure() -> None:
    with pytest.raises(timed.NoTimeError, match="9 responses, but the application counts 8"):
        timed.Counted(8, 1.0, 1, 1.0, 1.0).shares(1.0, 9)


def test_an_application_that_does_not_listen_reports_no_time() -> None:
    with pytest.raises(timed.NoTimeError, match="the application reports no time"):
        timed.ask(("127.0.0.1", 1))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bolide-wsgi", "bolide-asgi"])
def test_both_shares_of_a_request_are_measured(name: str, tmp_path: Path, silent: Silent) -> None:
    plan = study(workload(is_timed=True))
    assert race.run(plan, [name], options(tmp_path), silent, dict(contestant.own()))
    [found] = trials_of(tmp_path)
    assert found.failure is None, found
    assert found.application_us is not None and 0 < found.application_us < 10_000
    assert found.own_us is not None and 0 < found.own_us < 10_000
    assert "--sleepless" in found.command
