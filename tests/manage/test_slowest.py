"""The slowest routes between two readings of the status."""

from __future__ import annotations

import pytest

from bolide.manage import view
from bolide.manage.slowest import SHOWN_MAX, Slowest, slowest_between
from bolide.manage.status import SlowRoute, Status, WorkerStatus


def status(*workers: tuple[int, dict[str, tuple[int, float]]], since_s: float = 1.0) -> Status:
    return Status(
        tuple(
            WorkerStatus(
                pid=pid,
                slow_routes=tuple(
                    SlowRoute(route, *total, since_s) for route, total in routes.items()
                ),
            )
            for pid, routes in workers
        )
    )


def test_workers_are_added_up_and_the_slowest_is_first() -> None:
    before = status((1, {"GET /a": (10, 5.0), "GET /b": (3, 3.0)}), (2, {"GET /a": (1, 1.0)}))
    after = status((1, {"GET /a": (12, 5.5), "GET /b": (3, 3.0)}), (3, {"GET /c": (1, 4.0)}))
    assert slowest_between(before, after, 2.0) == [
        Slowest("GET /c", 0.5, 4.0),
        Slowest("GET /a", 1.0, 0.25),
    ]
    assert slowest_between(after, after, 2.0) == []


@pytest.mark.parametrize("now", [(2, 1.0), (12, 6.0)])
def test_a_route_that_has_lost_its_place_meanwhile_starts_again(now: tuple[int, float]) -> None:
    before, after = status((1, {"GET /a": (10, 50.0)})), status((1, {"GET /a": now}), since_s=9.0)
    assert slowest_between(before, after, 1.0) == [Slowest("GET /a", float(now[0]), 0.5)]


@pytest.mark.parametrize(
    ("mean_s", "rate", "expected"),
    [
        (0.0123, 0.25, "12.3 ms   0.25/s"),
        (0.9996, 5_000.0, "1 s       5,000/s"),
        (2_000.0, 999.6, "2,000 s   1,000/s"),
    ],
)
def test_routes_are_shown(mean_s: float, rate: float, expected: str) -> None:
    slow = [Slowest("GET /\x1b[2J", rate, mean_s), Slowest("GET /b", 1.0, 0.01)]
    lines = view._route_lines(slow)
    assert lines == [f"slowest    {expected}  GET /\\x1b[2J", "           10 ms     1/s  GET /b"]
    assert view._route_lines([]) == ["slowest    no request that took 10 ms has ended"]
    assert view._route_lines(None) == ["slowest    unknown"]


def test_only_a_few_are_shown() -> None:
    routes = {f"GET /{number}": (1, float(number)) for number in range(9)}
    found = slowest_between(status(), status((1, routes)), 1.0)
    assert found is not None
    assert [each.mean_s for each in found] == [8.0, 7.0, 6.0, 5.0, 4.0][:SHOWN_MAX]


def test_a_server_of_another_version_does_not_say() -> None:
    assert slowest_between(status(), Status((WorkerStatus(pid=1),)), 1.0) is None
    assert slowest_between(status(), status(), 1.0) == []
