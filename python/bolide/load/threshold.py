"""Conditions on a report: `p99 < 20ms`, `errors == 0`, `requests_per_s > 1000`, `errors < 0.1%`."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bolide import quantity
from bolide.errors import ConfigError
from bolide.load import distribution

Report = dict[str, Any]

LATENCIES = ("min", "mean", "stdev", "p50", "p75", "p90", "p95", "p99", "p99_9", "p99_99", "max")
COUNTS = ("ok", "failed", "unfinished")
RATES = ("requests_per_s", "bytes_per_s")
SHARES = ("generator_cpu", "achieved_share")
CLASSES = (
    "connect",
    "refused",
    "tls",
    "timeout",
    "reset",
    "early_eof",
    "short",
    "long",
    "malformed",
    "wrong_status",
    "wrong_body",
    "unexpected_bytes",
    "late",
    "stream_reset",
    "goaway",
    "early_response",
    "handshake",
    "closed",
)
"""The engine's classes of failure."""

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_FORM = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_.]*)\s*(<=|>=|==|!=|<|>)\s*(\S.*?)\s*")
_NUMBER = re.compile(r"[0-9][0-9_]*(?:\.[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Threshold:
    """One condition: `metric` of the report, `sign` as typed, `limit` in the metric's own unit.

    A latency is compared in microseconds, a share as 0 to 1. With `is_share`, a count is divided by
    the number of all responses and failures.
    """

    text: str
    metric: str
    sign: str
    limit: float
    is_share: bool = False

    @property
    def is_latency(self) -> bool:
        """Whether the limit is microseconds."""
        return self.metric in LATENCIES

    def value(self, report: Report) -> float | None:
        """Return the value in the report; None if it was not measured.

        Percentiles and the maximum are those of all requests: one without a correct response has an
        infinite latency.
        """
        if self.is_latency:
            return self._latency_us(report) if report["ok"] else None
        if self.metric in (*COUNTS, *RATES, *SHARES):
            found = report[self.metric]
        else:
            found = report["errors"].get(self.metric, 0)
        if self.is_share and self.metric not in SHARES:
            total = report["ok"] + report["failed"]
            return found / total if total else None
        return None if found is None else float(found)

    def finite_value(self, report: Report) -> float | None:
        """Return the same for JSON, which has no infinite numbers: None."""
        value = self.value(report)
        return None if value is None or math.isinf(value) else value

    def unanswered(self, report: Report) -> int:
        """Count requests that took longer than the limit, without a correct response.

        They failed, or had been due for longer than the limit at the end. Younger ones may still
        have got their responses in time, so they do not count.
        """
        older = sum(count for age_us, count in report["unfinished_us"] if age_us > self.limit)
        return int(report["failed"] + older)

    def latency_among(self, correct_us: float, ok: int, unanswered: int) -> float:
        """Return infinity if requests without a response include this percentile or maximum.

        `correct_us` is that of the `ok` correct responses, and returned otherwise.
        """
        share = _share(self.metric)
        return correct_us if share is None or _rank(share, ok + unanswered) <= ok else math.inf

    def _latency_us(self, report: Report) -> float | None:
        figures = report["latency_us"] or {}
        found: float | None = figures.get(self.metric)
        share = _share(self.metric)
        lost = self.unanswered(report)
        if found is None or share is None or not lost:
            return found
        if math.isinf(self.latency_among(found, report["ok"], lost)):
            return math.inf
        rank = _rank(share, report["ok"] + lost)
        reached = distribution.at_rank(report["histogram"], rank) or found
        return min(reached, float(figures["max"]))

    def is_met(self, report: Report) -> bool:
        """Return whether the condition is met; False if the metric was not measured."""
        return self.compare(self.value(report))

    def compare(self, value: float | None) -> bool:
        """Compare a value in the metric's unit with the limit."""
        return value is not None and _OPERATORS[self.sign](value, self.limit)

    def value_text(self, report: Report) -> str:
        """Format the value in the report in the condition's terms: `p99 is 31.2 ms`."""
        value = self.value(report)
        if value is None:
            return f"{self.metric} was not measured"
        if math.isinf(value):
            lost = self.unanswered(report)
            total = report["ok"] + lost
            return (
                f"{self.metric} is infinite: {lost:,} of {total:,} requests got no correct response"
            )
        if self.is_latency:
            shown = quantity.latency_text(value)
        elif self.is_share:
            shown = f"{value:.3%}"
        else:
            shown = f"{value:,.0f}"
        return f"{self.metric} is {shown}"


def read(text: str, option: str = "--require") -> Threshold:
    """Parse a condition; `option` is where it was given.

    Raises:
        ConfigError: it is malformed, or its value does not suit its metric.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise ConfigError(f"{option}: {text!r} is not a condition; give one like 'p99 < 20ms'")
    metric = _metric(match[1].lower())
    if metric is None:
        names = ", ".join((*LATENCIES, "errors", *COUNTS, *RATES, *SHARES))
        raise ConfigError(f"{option}: {match[1]!r} is not measured; give one of {names}")
    try:
        limit, is_share = _limit(metric, match[3])
    except ValueError as error:
        raise ConfigError(f"{option}: {match[3]!r} {error}") from None
    return Threshold(text.strip(), metric, match[2], limit, is_share)


def _share(metric: str) -> float | None:
    """Return which share of the latencies a percentile or the maximum is not exceeded by."""
    if metric == "max":
        return 1.0
    return float(metric[1:].replace("_", ".")) / 100 if metric.startswith("p") else None


def _rank(share: float, count: int) -> int:
    return max(1, math.ceil(share * count - 1e-9))


def _metric(name: str) -> str | None:
    """Return the report's key for a name; None if it is unknown."""
    name = {"errors": "failed", "rate": "requests_per_s"}.get(name, name.replace("p99.", "p99_"))
    known = (*LATENCIES, *COUNTS, *RATES, *SHARES, *CLASSES)
    return name if name in known else None


def _limit(metric: str, text: str) -> tuple[float, bool]:
    """Parse a limit in the metric's unit, and whether it is a share."""
    if metric in LATENCIES:
        return quantity.microseconds(text), False
    is_percent = text.endswith("%") and metric not in RATES
    number = text.removesuffix("%").strip() if is_percent else text
    if not _NUMBER.fullmatch(number):
        raise ValueError("is not a number; give one like 0, 1000 or, for a count, 0.1%")
    value = float(number.replace("_", ""))
    return (value / 100 if is_percent else value), is_percent or metric in SHARES
