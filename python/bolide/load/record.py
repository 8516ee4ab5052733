"""The machine-readable report: one JSON object, or one line of CSV below a header.

Every key ends in its unit. A value that was not measured is null in JSON and empty in CSV, never 0.
"""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Iterable
from typing import Any

from bolide.load import verdict
from bolide.load.threshold import CLASSES, LATENCIES, Threshold

Report = dict[str, Any]

_CSV_KEYS = (
    "requests_per_s",
    "ok",
    "failed",
    "unfinished",
    "seconds",
    "bytes_received",
    "bytes_per_s",
    "offered_per_s",
    "achieved_share",
    "generator_cpu",
    "cpu_ns_per_request",
    "connections_opened",
    "connections_max",
)
_PLAN_KEYS = ("address", "threads", "connections", "pipeline_depth", "streams", "is_persistent")


def as_json(
    report: Report, plan: dict[str, Any], thresholds: Iterable[Threshold] = (), **more: Any
) -> str:
    """Format the report, the plan, the warnings and the conditions as one line of JSON."""
    conditions = [
        {"text": each.text, "value": each.finite_value(report), "is_met": each.is_met(report)}
        for each in thresholds
    ]
    unmeasured = ("latency_us", "uncorrected_latency_us") if not report["ok"] else ()
    document = {
        **report,
        **dict.fromkeys(unmeasured),
        "plan": readable(plan),
        "warnings": verdict.sentences(report, plan),
        "requirements": conditions,
        **more,
    }
    return json.dumps(document)


def as_csv(report: Report, plan: dict[str, Any]) -> str:
    """Format a header and one line, without a newline at the end."""
    row: dict[str, Any] = {key: plan[key] for key in _PLAN_KEYS}
    row |= {key: report[key] for key in _CSV_KEYS}
    row["unfinished_oldest_us"] = verdict.oldest_us(report)
    row |= {f"errors_{name}": report["errors"].get(name, 0) for name in CLASSES}
    for name in ("latency_us", "uncorrected_latency_us"):
        figures = report[name] if report["ok"] else None
        row |= {f"{name}_{key}": (figures or {}).get(key) for key in LATENCIES}
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(row)
    writer.writerow(row.values())
    return out.getvalue().removesuffix("\n")


def readable(value: Any) -> Any:
    """Convert a plan to JSON values: bytes become text, or base64 if they are not UTF-8."""
    if isinstance(value, dict):
        return {key: readable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [readable(each) for each in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    return value
