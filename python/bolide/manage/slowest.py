"""Which routes were the slowest between two readings of a server's status."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from bolide.manage.status import Status

SHOWN_MAX = 5

Totals = Mapping[tuple[int | None, str, float], tuple[int, float]]
"""Slow requests and the seconds that they took, by process id, route and since when."""


@dataclass(frozen=True, slots=True)
class Slowest:
    """A route, its slow requests per second, and their mean duration in seconds."""

    route: str
    requests: float
    mean_s: float


def slowest_between(before: Status, after: Status, elapsed_s: float) -> list[Slowest] | None:
    """Return the routes that had slow requests in `elapsed_s`, the slowest first.

    It is None if the server does not say.
    """
    if after.workers and all(each.slow_routes is None for each in after.workers):
        return None
    earlier = _totals(before)
    requests: dict[str, int] = defaultdict(int)
    took_s: dict[str, float] = defaultdict(float)
    for key, (count, total_s) in _totals(after).items():
        counted, counted_s = earlier.get(key, (0, 0.0))
        _, route, _ = key
        requests[route] += count - counted
        took_s[route] += total_s - counted_s
    found = [
        Slowest(route, count / elapsed_s, took_s[route] / count)
        for route, count in requests.items()
        if count > 0
    ]
    return sorted(found, key=lambda each: (-each.mean_s, each.route))[:SHOWN_MAX]


def _totals(status: Status) -> Totals:
    return {
        (each.pid, route.route, route.since_s): (route.requests, route.total_s)
        for each in status.workers
        for route in each.slow_routes or ()
    }
