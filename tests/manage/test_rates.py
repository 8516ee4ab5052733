"""Rates and quantiles of two readings of the metrics."""

from __future__ import annotations

from bolide.manage.rates import between, quantile

OK = 'bolide_http_requests_total{method="GET",status="2xx"}'
POSTED = 'bolide_http_requests_total{method="POST",status="2xx"}'
BUCKET = 'bolide_http_request_duration_seconds_bucket{le="%s"}'


def test_rates_are_per_second_and_never_negative() -> None:
    before = {OK: 10.0, "bolide_sent_bytes_total": 100.0, BUCKET % "0.1": 5.0, BUCKET % "+Inf": 5.0}
    after = {
        OK: 30.0,
        POSTED: 4.0,
        "bolide_sent_bytes_total": 50.0,
        BUCKET % "0.1": 6.0,
        BUCKET % "+Inf": 9.0,
    }
    rates = between(before, after, 2.0)
    assert (rates.requests, rates.by_status, rates.sent_bytes) == (12.0, {"2xx": 12.0}, 0.0)
    assert (rates.median_s, rates.p99_s) == (float("inf"), float("inf"))
    assert between(after, after, 2.0).median_s is None


def test_a_quantile_is_the_bound_that_enough_values_are_below() -> None:
    buckets = {0.1: 50.0, 1.0: 99.0, float("inf"): 100.0}
    shares = {share: quantile(buckets, share) for share in (0.5, 0.51, 0.99, 1.0)}
    assert shares == {0.5: 0.1, 0.51: 1.0, 0.99: 1.0, 1.0: float("inf")}
    assert quantile({}, 0.5) is None
