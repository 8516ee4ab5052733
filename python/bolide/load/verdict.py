"""Warnings about a report, in plain sentences.

A figure that describes the generator, or failures, does not describe the server.
"""

from __future__ import annotations

import math
import os
import re
from typing import Any

from bolide import quantity
from bolide.visible import visible

Report = dict[str, Any]

BUSY_SHARE = 0.95
"""From this share of a core, the generator's busiest thread is the bottleneck."""
RUNNABLE_S_MIN = 1.0
"""In a shorter run, one turn of another process would count as if it had the processor always."""
FAILED_SHARE = 0.01
"""Failures above this share change what the other figures mean."""
ACHIEVED_SHARE = 0.99
"""Below this share of the offered rate, requests queue up and latencies grow with the run."""
BACKLOG_SHARE = 0.01
"""If requests queue up by more than this share of the rate, the rate is not achieved."""
BACKLOG_MIN = 5
"""How many more requests may be without a response at the end than halfway, at any rate."""
BACKLOG_SWING = 0.25
"""The same as a share of those halfway: latency varies, and their number with it."""
AGE_FACTOR = 1.01
"""Ages are as accurate as latencies: within 0.4 %."""
WAITED_SHARE = 0.01
"""If more of the requests than this share found all connections busy, their number matters."""
OPEN_SHARE = 0.95
"""If less than this share of the connections was open when the measured time started, the rate is
that of fewer connections."""
REOPENED_SHARE = 0.05
"""If more connections than this share of the requests were reopened, that affects the rate."""
CLOSING_SHARE = 0.2
"""If more requests than this share of the correct responses were lost with their connections, the
server probably closes connections without announcing it."""
FAIRNESS_MIN = 0.5
"""Jain's index below which a few connections had nearly all responses: k of n have k/n."""
RESPONSES_MIN = 10
"""Responses per connection from which on they should be even."""
PROCESSOR, SHARE = "processor", "share"
"""Kinds of reasons why the result of a fleet is not valid, of those that a search has to know: an
agent had no time left, and one did less than its share."""
LAG_US = 1_000.0
"""From this value, the generator's own lateness affects latencies of milliseconds."""


RESPONSE_CLASSES = (
    "short",
    "long",
    "wrong_status",
    "wrong_body",
    "unexpected_bytes",
    "late",
    "early_response",
)
"""Failures of requests that got a response; those of WebSocket have no status."""


def has_responses(report: Report) -> bool:
    """Return whether the server responded to any request."""
    failed = any(report["errors"].get(name) for name in RESPONSE_CLASSES)
    return bool(report["ok"] or any(report["statuses"].values()) or failed)


VALID_CLASSES = ("short", "long", "wrong_status", "wrong_body", "late")
"""Failures whose response was valid and complete, but not the one that was expected."""


def has_valid_responses(report: Report) -> bool:
    """Return whether any response was valid and complete, whatever was expected of it."""
    return bool(report["ok"] or any(report["errors"].get(name) for name in VALID_CLASSES))


def is_generator_bound(report: Report, is_sleepless: bool = False) -> bool:
    """Return whether the generator's busiest thread had no time left.

    A thread that never sleeps is always busy, so this is unknown for it.
    """
    return not is_sleepless and float(report["generator_cpu"] or 0) >= BUSY_SHARE


def has_no_time(report: Report, is_sleepless: bool = False) -> bool:
    """Return whether a thread of the generator always worked or waited for a processor."""
    if is_sleepless or report["seconds"] < RUNNABLE_S_MIN:
        return False
    return float(report.get("generator_runnable") or 0) >= BUSY_SHARE


def backlog_growth(report: Report) -> float:
    """Return by which share of an open loop's rate its backlog grew in the second half.

    0.0 if it did not, or if that is not known. At a constant rate it grows if the server does not
    achieve that rate, even if every request gets its response after the end.
    """
    half, end = report.get("backlog_half"), report.get("backlog_end")
    if half is None or end is None or not report["offered_per_s"]:
        return 0.0
    due, grown = report["offered_per_s"] * report["seconds"] / 2, end - half
    least = max(BACKLOG_MIN, BACKLOG_SHARE * due, BACKLOG_SWING * half)
    return float(grown / due) if grown > least else 0.0


def sentences(report: Report, plan: dict[str, Any]) -> list[str]:
    """Return every warning that applies, the most serious first."""
    found = [
        *(f"the result is not valid: {reason}" for reason in report.get("invalid") or ()),
        _nothing(report),
        _failures(report, plan),
        _connecting(report),
        _tls(report),
        _http2(report, plan),
        _websocket(report, plan),
        _closing(report, plan),
        _generator(report, plan),
        _shared_processors(report),
        _silence(report),
        _missing_connections(report, plan),
        _starved(report) or _uneven(report, plan),
        _reconnecting(report, plan),
        _outstanding(report),
        _queue(report, plan),
        _lag(report),
    ]
    return [sentence for sentence in found if sentence]


NO_RESPONSE = "there was no response at all"


def _nothing(report: Report) -> str:
    if has_responses(report):
        return ""
    none = "no response was valid" if report["errors"].get("malformed") else NO_RESPONSE
    return f"{none} ({failures_text(report)}), so there are no figures"


def _failures(report: Report, plan: dict[str, Any]) -> str:
    failed, total = report["failed"], report["failed"] + report["ok"]
    if not has_responses(report) or failed <= FAILED_SHARE * total:
        return ""
    hint = ""
    if report["errors"].get("wrong_status", 0) == failed:
        got = _unexpected(report, plan)
        what = f"{failed:,} of {total:,} responses had status {' or '.join(got)}"
        what += f" instead of {_expected(plan)}"
        hint = f" (--expect-status {got[0]} counts them as correct)" if len(got) == 1 else ""
    else:
        sent = "messages" if plan.get("websocket") else "requests"
        what = f"{failed:,} of {total:,} {sent} failed ({failures_text(report)})"
    if failed >= 0.5 * total:
        return f"{what}: the rate is not a throughput{hint}"
    return f"{what}: rate and latency cover only the others{hint}"


CONNECT_REMEDIES = {
    "no_port": "no local port was free, because each is kept for a minute after its connection; "
    "give several addresses with --source, or leave out --no-keep-alive",
    "no_file": "too many files are open; raise the limit (ulimit -Hn)",
    "no_route": "no route leads to the server",
    "full_queue": "the queue of the server's UNIX socket stayed full",
    "no_answer": "the server's queue was full, or nothing at its address responds",
}
"""What prevented connections, and what to do about it."""
FLEET_REMEDIES = {
    "no_port": "no local port was free, because each is kept for a minute after its connection; "
    "use more agents, or leave out --no-keep-alive",
    "certificate_required": "it requires a certificate of the client, which agents do not have",
    "certificate_refused": "it requires a certificate of the client, which agents do not have",
}
"""The same of a fleet, which refuses some options."""
OWN_LIMITS = ("no_port", "no_file")
"""Causes that are limits of the generator."""
CAUSE_CHARS_MAX = 80


def _connecting(report: Report) -> str:
    """Name the most frequent cause of connections that could not be opened, with its remedy."""
    failures = report.get("connect_failures") or {}
    if not failures:
        return ""
    cause = max(failures, key=lambda name: int(failures[name]))
    what = _remedy(report, CONNECT_REMEDIES, cause) or _error_text(cause)
    return f"{sum(failures.values()):,} connections could not be opened: {what}"


def _remedy(report: Report, remedies: dict[str, str], cause: str) -> str:
    of_place = remedies | FLEET_REMEDIES if report.get("fleet") else remedies
    return of_place.get(cause, "")


def _error_text(cause: str) -> str:
    """Describe a cause that is an error of the system, or what an agent of a fleet called it."""
    number = re.fullmatch("errno_([0-9]{1,4})", cause)
    return os.strerror(int(number[1])) if number else visible(cause[:CAUSE_CHARS_MAX])


def lacks_connections(report: Report) -> bool:
    """Return whether failures are mostly those of a generator without ports or descriptors."""
    failures = report.get("connect_failures") or {}
    is_own = any(failures.get(name) for name in OWN_LIMITS)
    return is_own and 2 * int(report["errors"].get("connect", 0)) > int(report["failed"])


def waited_share(report: Report) -> float:
    """Return the share of an open loop's requests that were due while all connections were busy."""
    waited = report.get("waited_for_connection")
    due = (report["offered_per_s"] or 0.0) * report["seconds"]
    return float(waited / due) if waited and due else 0.0


TLS_REMEDIES = {
    "unknown_issuer": "its certificate is not issued by a known authority; give that authority's "
    "certificate with --cacert, or --insecure to verify nothing",
    "expired": "its certificate has expired; renew it, or give --insecure to verify nothing",
    "not_yet_valid": "its certificate is not valid yet; check the clocks, or give --insecure",
    "other_name": "its certificate is for other names; use one of them in the URL, or --insecure",
    "bad_certificate": "its certificate cannot be used; replace it, or give --insecure",
    "certificate_required": "it requires a certificate of the client; give one with --cert and "
    "--key",
    "certificate_refused": "it refuses the client's certificate; give another one with --cert",
    "nothing_in_common": "no version, cipher suite or protocol is common to both; see --tls-min "
    "and --tls-max, and leave out --http2 if it speaks HTTP/1.1 only",
    "no_http2": "it does not select HTTP/2; leave out --http2, or enable HTTP/2 (ALPN h2) there",
    "not_tls": "it does not speak TLS on this port; give an http:// URL or another port",
    "ended": "it ended connections during the handshake; its log may say why",
}
"""What a cause of failure means, and what to do about it."""


def _tls(report: Report) -> str:
    """Name the most frequent cause of failures of TLS, with its remedy."""
    failures = report["tls"]["failures"] if report["tls"] else {}
    if not failures:
        return ""
    cause = max(failures, key=lambda name: int(failures[name]))
    text = report["tls"]["first_failure"]
    what = _remedy(report, TLS_REMEDIES, cause) or "the records that it sends cannot be used"
    end = ", so the run was ended" if report["tls"].get("was_hopeless") else ""
    count = sum(failures.values())
    return f"TLS with the server failed on {count:,} connections{end}: {what} ({text})"


def _http2(report: Report, plan: dict[str, Any]) -> str:
    """Name the remedy if a server does not expect HTTP/2 at once, or its limit of streams."""
    allowed = report.get("streams_allowed")
    if allowed == 0:
        return (
            "the server allows no streams on a connection (SETTINGS_MAX_CONCURRENT_STREAMS is 0), "
            "so no requests were sent from then on"
        )
    if report["ok"] and allowed is not None and allowed < plan["streams"]:
        return (
            f"the server allows {allowed:,} streams on a connection, so no more of the "
            f"{plan['streams']:,} were used"
        )
    if plan["http_version"] != "2" or report["tls"] or has_responses(report):
        return ""
    if not report["errors"].get("malformed") or report.get("settings_received"):
        return ""
    return (
        "the server does not speak HTTP/2 without TLS: leave out --http2, give an https:// URL, or "
        "enable it there (bolide serve --h2c)"
    )


def _websocket(report: Report, plan: dict[str, Any]) -> str:
    """Name why connections were no WebSockets, violated the protocol, or do not fit the pattern."""
    found = report["websocket"]
    is_one_way = (plan.get("websocket") or {}).get("pattern") == "one-way"
    if is_one_way and report["errors"].get("unexpected_bytes"):
        return (
            "the server sent messages, and --pattern one-way expects none; "
            "--pattern echo checks those of a server that sends every message back"
        )
    if found and (pings := found.get("pings_unanswered")) and not found["first_failure"]:
        return (
            "the server sends pings and does not read the pongs: "
            f"{pings:,} of its pings got none of their own"
        )
    if not found or not (found["first_failure"] or found["closes"]):
        return ""
    if not found["first_failure"]:
        closes = ", ".join(f"{count:,} x {code}" for code, count in sorted(found["closes"].items()))
        return f"the server closed WebSockets: {closes}"
    refused = sum(found["refusals"].values())
    if not refused:
        return f"the server violated the protocol: {found['first_failure']}"
    return f"the server refused {refused:,} WebSockets: {found['first_failure']}"


def _closing(report: Report, plan: dict[str, Any]) -> str:
    """Warn about a server that closes connections which its responses said would persist."""
    lost = sum(report["errors"].get(name, 0) for name in ("early_eof", "reset"))
    again = report["connections_opened"] - plan["connections"]
    if not plan["is_persistent"] or not report["ok"] or lost <= CLOSING_SHARE * report["ok"]:
        return ""
    if again < lost / max(plan["pipeline_depth"], plan["streams"]) - plan["connections"]:
        return ""
    return (
        f"{lost:,} requests were sent on connections that the server closed: if it closes after "
        "its responses without announcing it (Connection: close), use --no-keep-alive"
    )


def _expected(plan: dict[str, Any]) -> str:
    """Return the statuses that count as correct."""
    statuses = {request["expected_status"] for request in plan["requests"]}
    return " or ".join(sorted(str(status or "2xx") for status in statuses))


def _unexpected(report: Report, plan: dict[str, Any]) -> list[str]:
    """Return the statuses that are not expected; where requests differ, all that were received."""
    expected = {request["expected_status"] for request in plan["requests"]}
    got = sorted(status for status, count in report["statuses"].items() if count)
    if len(expected) > 1:
        return got
    [only] = expected
    wrong = [each for each in got if (each != str(only) if only else each[0] != "2")]
    return wrong or got


def failures_text(report: Report) -> str:
    """Format the failures by class, the most frequent first: `90 timeout, 3 reset`."""
    classes = sorted(report["errors"].items(), key=lambda each: -each[1])
    return ", ".join(f"{count:,} {name}" for name, count in classes if count) or "no errors"


def _generator(report: Report, plan: dict[str, Any]) -> str:
    in_fleet = bool(report.get("fleet"))
    if not is_generator_bound(report, plan["is_sleepless"]):
        # A server on the same processor has a note of its own.
        if report.get("shared_processors") or not has_no_time(report, plan["is_sleepless"]):
            return ""
        return (
            "the generator was the bottleneck: its busiest thread wanted a processor for "
            f"{report['generator_runnable']:.0%} of the time, and had one for "
            f"{report['generator_cpu']:.0%}; give it processors of its own "
            f"({'taskset' if in_fleet else '--cpus'})"
        )
    return (
        f"the generator was the bottleneck: its busiest thread used {report['generator_cpu']:.0%} "
        f"of a core, so the server may be faster; use more {'agents' if in_fleet else '--threads'},"
        " or processors of its own"
    )


def _shared_processors(report: Report) -> str:
    shared, in_fleet = report.get("shared_processors"), bool(report.get("fleet"))
    if not shared:
        return ""
    which = f"processor{'s' * (len(shared) > 1)} {', '.join(map(str, shared))}"
    return (
        f"server and load share {which}: each takes time from the other, so the rate is not the"
        f" server's own; give each a processor ({'taskset' if in_fleet else 'taskset, --cpus'})"
    )


def _connections_needed(plan: dict[str, Any]) -> int:
    """Return how many connections a plan wants: a number of requests may need fewer."""
    wanted: int = plan["connections"]
    total: int | None = plan.get("requests_total")
    if not total:
        return wanted
    messages = (plan["websocket"] or {}).get("depth", 1)
    depth: int = max(plan["pipeline_depth"], plan["streams"], messages)
    return min(wanted, math.ceil(total / depth))


def _missing_connections(report: Report, plan: dict[str, Any]) -> str:
    wanted = plan["connections"]
    if plan.get("stages") or not plan["is_persistent"] or not has_responses(report):
        return ""
    if report["connections_max"] < _connections_needed(plan):
        most = report["connections_max"]
        return f"only {most:,} of {wanted:,} connections were ever open at once"
    at_start = report.get("connections_at_start")
    if at_start is None or at_start >= OPEN_SHARE * wanted:
        return ""
    return (
        f"only {at_start:,} of {wanted:,} connections were open when the measured time started: the"
        " rate includes a time with fewer connections; a longer --warm-up leaves it out"
    )


def _starved(report: Report) -> str:
    served = report["connections_served"]
    if not report["ok"] or not served["starved"]:
        return ""
    return (
        f"{served['starved']:,} of {served['starved'] + served['connections']:,} connections got no"
        f" correct response: rate and latency are those of the other {served['connections']:,}"
    )


def _uneven(report: Report, plan: dict[str, Any]) -> str:
    """Warn if a few connections had nearly all responses, though each had one.

    In an open loop, and while the number of connections changes, they may differ.
    """
    served, total = report["connections_served"], report["connections_served"]["connections"]
    is_even_load = report["offered_per_s"] is None and not plan.get("stages")
    is_even_load = is_even_load and plan["is_persistent"]
    if not is_even_load or not report["ok"] or report["ok"] < RESPONSES_MIN * total:
        return ""
    if served["fairness"] is None or served["fairness"] >= FAIRNESS_MIN:
        return ""
    few = max(1, round(served["fairness"] * total))
    return (
        f"connections got {served['min']:,} to {served['max']:,} responses, {served['median']:,} at"
        f" the median: rate and latency are those of about {few:,} of {total:,}"
    )


def _silence(report: Report) -> str:
    whole = report["per_second"][: int(report["seconds"])]
    silent = sum(not second["ok"] for second in whole)
    if not silent or report["requests_per_s"] < len(whole):
        return ""
    return f"in {silent} of {len(whole)} seconds there was no correct response"


def _reconnecting(report: Report, plan: dict[str, Any]) -> str:
    again = report["connections_opened"] - plan["connections"]
    total = report["ok"] + report["failed"]
    if not plan["is_persistent"] or not has_responses(report) or again <= REOPENED_SHARE * total:
        return ""
    return (
        f"{again:,} connections had to be reopened during {total:,} requests: the rate includes "
        "connecting"
    )


def oldest_us(report: Report) -> float | None:
    """Return for how long the oldest request without a response had been sent or due."""
    return max((float(age_us) for age_us, _ in report["unfinished_us"]), default=None)


def _outstanding(report: Report) -> str:
    """Warn if requests without a response waited for longer than any response took."""
    oldest = oldest_us(report)
    if oldest is None or not report["ok"] or oldest <= AGE_FACTOR * report["latency_us"]["max"]:
        return ""
    return (
        f"{report['unfinished']:,} requests had no response when the time was over, the oldest "
        f"after {quantity.latency_text(oldest)}: no response took so long, so the latencies leave "
        "out the slowest requests"
    )


def _queue(report: Report, plan: dict[str, Any]) -> str:
    share, waited, cause = report["achieved_share"], waited_share(report), ""
    if share is None or not has_responses(report):
        return ""
    if waited >= WAITED_SHARE:
        cause = (
            f"; {waited:.1%} of the requests found all {plan['connections']:,} connections busy: if"
            " the server has time left, give more of them (-c)"
        )
    if share < ACHIEVED_SHARE:
        return (
            f"only {share:.1%} of the {report['offered_per_s']:,.0f} requests/s requested were "
            f"achieved: requests queued up, and the latency is mostly that of the queue{cause}"
        )
    if plan.get("stages") or not backlog_growth(report):
        return ""
    return (
        f"requests queued up: {report['backlog_end']:,} had no response at the end, "
        f"{report['backlog_half']:,} halfway: the rate was not achieved, and the latency grows "
        f"with the time{cause}"
    )


def _lag(report: Report) -> str:
    lag = (report["schedule_lag_us"] or {}).get("p99") or 0
    if lag < LAG_US or not has_responses(report):
        return ""
    return (
        f"the generator itself sent 1 % of the requests {quantity.latency_text(lag)} late or "
        "later; the latency includes that time"
    )
