"""Which results of a fleet are none, and why."""

from __future__ import annotations

from typing import Any

import pytest

from bolide.fleet.clock import Offset
from bolide.fleet.verdict import Member, late_s_max, skew
from bolide.fleet.verdict import reasons as reasons_of
from fleet.samples import member, order


def reasons(members: list[Member], **more: bool) -> list[str]:
    """Return the sentences."""
    return [each.text for each in reasons_of(members, **more)]


def test_a_fleet_that_did_its_share_is_valid() -> None:
    assert reasons([member("a"), member("b", achieved_share=0.995, offered_per_s=50.0)]) == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"start_late_us": 150_000.0}, "agent a started 150 ms late"),
        ({"start_late_us": None}, "agent a did not start"),
        (
            {"generator_cpu": 0.97, "generator_runnable": 0.98},
            "agent a was CPU-bound: its busiest thread worked 97% of the time",
        ),
        (
            {"generator_cpu": 0.3, "generator_runnable": 0.99, "generator_waited": 0.69},
            "agent a was CPU-bound: other processes had its processors, for which one of its "
            "threads waited 69% of the time",
        ),
        # Another thread than the busiest one waited.
        (
            {"generator_cpu": 0.6, "generator_runnable": 0.6, "generator_waited": 0.35},
            "agent a was CPU-bound: other processes had its processors, for which one of its "
            "threads waited 35% of the time",
        ),
        ({"generator_cpu": 0.96, "generator_runnable": None}, "agent a was CPU-bound"),
        (
            {"generator_cpu": 0.1, "generator_runnable": 0.4, "generator_waited": 0.3},
            "agent a was CPU-bound: other processes had its processors, for which one of its "
            "threads waited 30% of the time",
        ),
        (
            {"achieved_share": 0.987, "offered_per_s": 2_000.0},
            "agent a achieved only 98.7% of its 2,000 requests/s",
        ),
        ({"connections_max": 40}, "agent a had only 40 of its 50 connections"),
    ],
)
def test_an_agent_that_was_not_sound(changes: dict[str, Any], reason: str) -> None:
    [found] = reasons([member("a", **changes), member("b")])
    assert found.startswith(reason)


@pytest.mark.parametrize("more", [{}, {"achieved_share": 0.0, "offered_per_s": 0.0}])
def test_an_agent_with_no_request_does_not_start(more: dict[str, Any]) -> None:
    members = [member(each, start_late_us=None, **more) for each in "ab"]
    for before, each in enumerate(members):
        each.order = order(duration_s=None, requests_total=1, threads_before=before)
    assert reasons(members) == ["agent a did not start"]


def test_an_agent_of_which_no_request_was_due_has_done_its_share() -> None:
    assert reasons([member("a", achieved_share=0.0, offered_per_s=0.0)]) == []


def test_an_agent_that_was_lost_or_cut() -> None:
    lost, cut = member("a"), member("b")
    lost.report, lost.lost = None, "it cannot be reached"
    cut.ended = "at its --duration-max"
    assert reasons_of([lost, cut]) == [
        ("lost", "agent a was lost: it cannot be reached"),
        ("ended", "agent b ended the load at its --duration-max"),
    ]


def test_each_reason_has_a_kind() -> None:
    late, busy = member("a", start_late_us=150_000.0), member("b", generator_cpu=0.99)
    short = member("c", achieved_share=0.9, offered_per_s=10.0)
    assert [each.kind for each in reasons_of([late, busy, short])] == ["late", "processor", "share"]


def test_a_short_load_starts_less_late() -> None:
    assert late_s_max(order(duration_s=None, requests_total=5)) == 0.1
    assert late_s_max(order(duration_s=100.0)) == late_s_max(order(duration_s=5.0)) == 0.1
    assert late_s_max(order(duration_s=2.0, warm_up_s=1.0)) == pytest.approx(0.06)
    assert late_s_max(order(duration_s=0.1)) == 0.02
    short = member("a", start_late_us=45_000.0)  # of 2 s
    assert reasons([short]) == ["agent a started 45.0 ms late"]
    short.order = order(duration_s=3.0)
    assert reasons([short]) == []


def test_a_clock_that_was_not_read_again_is_a_reason() -> None:
    unchecked = member("a")
    unchecked.unchecked = "it did not respond for 5 s"
    assert reasons([unchecked]) == [
        "the clock of agent a was not read after the run: it did not respond for 5 s"
    ]


def test_a_clock_that_moved_or_is_not_known() -> None:
    moved, unknown = member("a"), member("b")
    moved.offset_after = Offset(3_000_000_000, 1_000_000)
    unknown.offset = Offset(0, 200_000_000)
    first, second = reasons([moved, unknown])
    assert first == "the clock of agent a moved by 3.00 s during the run"
    assert second.startswith("the clock of agent b is known only to 200 ms")


def test_clocks_move_apart_during_a_long_run() -> None:
    slewed, stepped = member("a"), member("b")
    for each, ahead_ns in ((slewed, 400_000_000), (stepped, 410_000_000)):
        each.order = order(duration_s=600.0)
        each.offset = Offset(0, 1_000_000, 5_000_000_000)
        each.offset_after = Offset(ahead_ns, 1_000_000, 605_000_000_000)
    assert reasons([slewed, stepped]) == ["the clock of agent b moved by 408 ms during the run"]


def test_an_offset_of_three_seconds_is_no_reason() -> None:
    ahead = member("a")
    ahead.offset = ahead.offset_after = Offset(3_000_000_000, 1_000_000)
    assert reasons([ahead, member("b")]) == []


def test_a_run_that_was_interrupted_has_no_share() -> None:
    short = member("a", achieved_share=0.5, offered_per_s=10.0)
    assert reasons([short], was_interrupted=True) == []


def test_a_sleepless_generator_is_always_busy() -> None:
    busy = member("a", generator_cpu=1.0)
    busy.order = order(is_sleepless=True)
    assert reasons([busy]) == []
    assert busy.report is not None
    busy.report["generator_waited"] = 0.26
    assert reasons([busy]) == [
        "agent a was CPU-bound: other processes had its processors, for which one of its threads "
        "waited 26% of the time"
    ]


def test_an_agent_that_hardly_waited_was_busy_itself() -> None:
    busy = {"generator_cpu": 0.945, "generator_runnable": 0.955, "generator_waited": 0.01}
    [found] = reasons([member("a", **busy)])
    expected = "its busiest thread worked 94% of the time, and waited for a processor 1%"
    assert found == f"agent a was CPU-bound: {expected}"


def test_a_short_run_does_not_show_who_had_the_processors() -> None:
    slowed = {"generator_cpu": 0.1, "generator_runnable": 0.99, "generator_waited": 0.89}
    assert reasons([member("a", seconds=0.9, **slowed)]) == []
    [found] = reasons([member("a", seconds=0.9, **slowed | {"generator_cpu": 0.96})])
    assert found == "agent a was CPU-bound: its busiest thread worked 96% of the time"


def test_the_skew_has_the_uncertainty_of_two_clocks() -> None:
    first, second = member("a", start_late_us=50.0), member("b", start_late_us=450.0)
    second.offset = Offset(0, 3_000_000)
    found = skew([first, second])
    assert found is not None
    assert (found.between_ns, found.uncertainty_ns) == (400_000.0, 4_000_000.0)
    assert skew([first]) is None
