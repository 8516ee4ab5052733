"""What a reader must know before believing a report, in plain sentences.

A figure that describes the generator, or failures, is not a figure of the server.
"""

from __future__ import annotations

from typing import Any

from bolide.load import quantity

Report = dict[str, Any]

BUSY_SHARE = 0.95
"""From this share of a core on, the generator's busiest thread is the limit."""
FAILED_SHARE = 0.01
"""Failures above this share change what the other figures mean."""
ACHIEVED_SHARE = 0.99
"""Below this share of the offered rate, requests queue up and latencies grow with the run."""
REOPENED_SHARE = 0.05
"""With more connections opened again than this share of the requests, connecting shows."""
CLOSING_SHARE = 0.2
"""With more requests lost with their connections than this share of the right responses, a server
that closes without saying so is likely."""
LAG_US = 1_000.0
"""From this on the generator's own lateness shows in latencies of milliseconds."""


def has_responses(report: Report) -> bool:
    """Return whether the server responded to anything at all."""
    return bool(report["ok"] or any(report["statuses"].values()))


def is_generator_bound(report: Report, is_sleepless: bool = False) -> bool:
    """Return whether the generator's busiest thread had no time left.

    A thread that never sleeps is always busy, so that this cannot be told of it.
    """
    return not is_sleepless and float(report["generator_cpu"] or 0) >= BUSY_SHARE


def sentences(report: Report, plan: dict[str, Any]) -> list[str]:
    """Return every warning that fits, the gravest first."""
    found = [
        _nothing(report),
        _failures(report, plan),
        _closing(report, plan),
        _generator(report, plan),
        _silence(report),
        _missing_connections(report, plan),
        _reconnecting(report, plan),
        _queue(report),
        _lag(report),
    ]
    return [sentence for sentence in found if sentence]


def _nothing(report: Report) -> str:
    if has_responses(report):
        return ""
    return f"there was no response at all ({failures_text(report)}): there is no figure"


def _failures(report: Report, plan: dict[str, Any]) -> str:
    failed, total = report["failed"], report["failed"] + report["ok"]
    if not has_responses(report) or failed <= FAILED_SHARE * total:
        return ""
    statuses = report["errors"].get("wrong_status", 0)
    if statuses == failed:
        what = f"{failed:,} of {total:,} responses were not {_expected(plan)}"
    else:
        what = f"{failed:,} of {total:,} requests failed ({failures_text(report)})"
    if failed >= 0.5 * total:
        return f"{what}: this is no throughput"
    return f"{what}: rate and latency are those of the others only"


def _closing(report: Report, plan: dict[str, Any]) -> str:
    """Name what helps where a server ends connections that its responses said would persist."""
    lost = sum(report["errors"].get(name, 0) for name in ("early_eof", "reset"))
    again = report["connections_opened"] - plan["connections"]
    if not plan["is_persistent"] or not report["ok"] or lost <= CLOSING_SHARE * report["ok"]:
        return ""
    if again < lost / plan["pipeline_depth"] - plan["connections"]:
        return ""
    return (
        f"{lost:,} requests were sent on connections that the server closed: if it closes after "
        "its responses without saying so (Connection: close), --no-keep-alive measures it"
    )


def _expected(plan: dict[str, Any]) -> str:
    """Name the statuses that count as right."""
    statuses = {request["expected_status"] for request in plan["requests"]}
    return " or ".join(sorted(str(status or "2xx") for status in statuses))


def failures_text(report: Report) -> str:
    """Write the failures by class, the most frequent first: `90 timeout, 3 reset`."""
    classes = sorted(report["errors"].items(), key=lambda each: -each[1])
    return ", ".join(f"{count:,} {name}" for name, count in classes if count) or "no errors"


def _generator(report: Report, plan: dict[str, Any]) -> str:
    if not is_generator_bound(report, plan["is_sleepless"]):
        return ""
    return (
        f"the generator was the limit: its busiest thread used {report['generator_cpu']:.0%} of a "
        "core, so the server may be faster; give it --threads, or processors of its own"
    )


def _missing_connections(report: Report, plan: dict[str, Any]) -> str:
    wanted = plan["connections"]
    if plan.get("stages") or not plan["is_persistent"] or not has_responses(report):
        return ""
    if report["connections_max"] >= min(wanted, plan.get("requests_total") or wanted):
        return ""
    return f"only {report['connections_max']:,} of {wanted:,} connections were ever open at once"


def _silence(report: Report) -> str:
    whole = report["per_second"][: int(report["seconds"])]
    silent = sum(not second["ok"] for second in whole)
    if not silent or report["requests_per_s"] < len(whole):
        return ""
    return f"in {silent} of {len(whole)} seconds no right response came at all"


def _reconnecting(report: Report, plan: dict[str, Any]) -> str:
    again = report["connections_opened"] - plan["connections"]
    total = report["ok"] + report["failed"]
    if not plan["is_persistent"] or not has_responses(report) or again <= REOPENED_SHARE * total:
        return ""
    return (
        f"{again:,} connections had to be opened again in the course of {total:,} requests: the "
        "rate is that of connecting too"
    )


def _queue(report: Report) -> str:
    share = report["achieved_share"]
    if share is None or share >= ACHIEVED_SHARE or not has_responses(report):
        return ""
    return (
        f"only {share:.1%} of the {report['offered_per_s']:,.0f} requests/s asked for were "
        "achieved: requests queued up, and the latency is that of the queue"
    )


def _lag(report: Report) -> str:
    lag = (report["schedule_lag_us"] or {}).get("p99") or 0
    if lag < LAG_US:
        return ""
    return (
        f"the generator sent 1 % of the requests {quantity.latency_text(lag)} late or later of "
        "itself; the latency holds that time too"
    )
