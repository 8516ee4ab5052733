"""What happened between two readings of a server's metrics."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

Samples = Mapping[str, float]
BOUND = r"[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?|\+Inf"
BUCKET = re.compile(rf'bolide_http_request_duration_seconds_bucket\{{le="({BOUND})"\}}')
STATUS = re.compile(r'bolide_http_requests_total\{method="[^"]*",status="([^"]+)"\}')


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates per second, and durations in seconds; None where nothing happened."""

    requests: float
    by_status: Mapping[str, float]
    received_bytes: float
    sent_bytes: float
    median_s: float | None
    p99_s: float | None


def between(before: Samples, after: Samples, elapsed_s: float) -> Rates:
    """Return the rates between two readings that are `elapsed_s` apart."""

    def rate(name: str) -> float:
        return max(0.0, after.get(name, 0.0) - before.get(name, 0.0)) / elapsed_s

    by_status: dict[str, float] = {}
    for name in after:
        if (found := STATUS.fullmatch(name)) is not None:
            by_status[found[1]] = by_status.get(found[1], 0.0) + rate(name)
    buckets = {
        float(found[1]): rate(name)
        for name in after
        if (found := BUCKET.fullmatch(name)) is not None
    }
    return Rates(
        requests=sum(by_status.values()),
        by_status={status: value for status, value in by_status.items() if value > 0},
        received_bytes=rate("bolide_received_bytes_total"),
        sent_bytes=rate("bolide_sent_bytes_total"),
        median_s=quantile(buckets, 0.5),
        p99_s=quantile(buckets, 0.99),
    )


def quantile(buckets: Mapping[float, float], share: float) -> float | None:
    """Return the bound below which a share of the values is; None without values.

    Args:
        buckets: how many values are at most each bound.
        share: from 0 to 1.
    """
    bounds = sorted(buckets)
    total = buckets[bounds[-1]] if bounds else 0
    if not total:
        return None
    return next(bound for bound in bounds if buckets[bound] >= share * total)
