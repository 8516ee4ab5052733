"""The page that `bolide load` prints: figures, a histogram, and warnings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bolide import quantity
from bolide.load import distribution, verdict
from bolide.load.destination import Destination

Report = dict[str, Any]

LABEL_CELLS = 16
BAR_CELLS = 40
BINS_MAX = 12
_NAMES = ("min", "p50", "p75", "p90", "p95", "p99", "p99_9", "p99_99", "max")
_SAMPLES_MIN = {"p99": 100, "p99_9": 1_000, "p99_99": 10_000}
"""With fewer latencies than this, the percentile equals the maximum."""


def page(
    report: Report, plan: dict[str, Any], destination: Destination, place: Sequence[str] = ()
) -> str:
    """Format the whole page, without a newline at its end; `place` is where the load ran."""
    sections = [
        [_title(plan, destination, len((report.get("fleet") or {}).get("agents", ())))],
        _figures(report, plan),
        _latencies(report),
        _histogram(report),
        list(place),
        [f"note: {sentence}" for sentence in verdict.sentences(report, plan)],
    ]
    return "\n\n".join("\n".join(section) for section in sections if section)


def _title(plan: dict[str, Any], destination: Destination, agents: int) -> str:
    """Describe the run: `http://...: 100 connections, 24 deep, 1 thread, 2,000 requests/s`."""
    parts = [_number(plan["connections"], "connection")]
    if plan["pipeline_depth"] > 1:
        parts.append(f"{plan['pipeline_depth']} deep")
    parts += _messages(plan["websocket"]) if plan.get("websocket") else []
    if plan["http_version"] == "2":
        parts.append(f"{_number(plan['streams'], 'stream')} each")
    if not plan["is_persistent"]:
        parts.append("one for each request")
    if plan["http_version"] != "1.1":
        parts.append(f"HTTP/{plan['http_version']}")
    if agents:
        parts.append(f"{_number(agents, 'agent')} with {_number(plan['threads'], 'thread')} each")
    else:
        parts.append(_number(plan["threads"], "thread"))
    if plan.get("rate_per_s"):
        parts.append(f"open loop at {plan['rate_per_s']:,.0f} {_sent(plan)}/s")
    elif plan.get("stages"):
        parts.append(_number(len(plan["stages"]), "stage"))
    return f"{destination.url}: {', '.join(parts)}"


def _messages(websocket: dict[str, Any]) -> list[str]:
    """Describe the messages of a plan."""
    parts = [f"{websocket['depth']} deep"] if websocket["depth"] > 1 else []
    kind = "binary" if websocket["is_binary"] else "text"
    parts.append(f"{websocket['pattern']} of {websocket['message_bytes']:,} B {kind}")
    return [*parts, "permessage-deflate"] if websocket["is_compressed"] else parts


def _sent(plan: dict[str, Any]) -> str:
    """Return what the load consists of."""
    return "messages" if plan.get("websocket") else "requests"


def _figures(report: Report, plan: dict[str, Any]) -> list[str]:
    """Format rate, counts, errors and the generator's CPU use."""
    statuses = sorted(report["statuses"].items())
    rows = [
        ("rate", f"{report['requests_per_s']:,.1f} {_sent(plan)}/s"),
        ("responses", f"{report['ok']:,} in {quantity.duration_text(report['seconds'])}"),
        ("failed", _failed(report)),
        ("unfinished", _unfinished(report)),
        ("statuses", ", ".join(f"{count:,} x {code}" for code, count in statuses)),
        ("offered", _offered(report, plan)),
        (
            "received",
            f"{quantity.bytes_text(report['bytes_received'])}, "
            f"{quantity.bytes_text(report['bytes_per_s'])}/s",
        ),
        (
            "connections",
            f"{report['connections_opened']:,} opened, {report['connections_max']:,} at once",
        ),
        ("handshakes", _handshakes(report, plan)),
        ("per connection", _per_connection(report["connections_served"])),
        ("generator CPU", _generator(report, plan)),
    ]
    return [f"{name:{LABEL_CELLS}}{value}" for name, value in rows if value]


def _generator(report: Report, plan: dict[str, Any]) -> str:
    """Format the generator's CPU use; a thread that never sleeps is always busy."""
    share, per_request = report["generator_cpu"], report["cpu_ns_per_request"]
    text = f"{share:.0%} of a core in the busiest thread"
    if plan["is_sleepless"]:
        return f"{text}, which never sleeps"
    return f"{text}, {per_request:,.0f} ns for each request" if per_request else text


def _per_connection(served: dict[str, Any]) -> str:
    """Format how many correct responses each connection got; nothing for a single one."""
    if served["connections"] + served["starved"] < 2:
        return ""
    return f"{served['min']:,} to {served['max']:,} responses, {served['median']:,} at the median"


def _handshakes(report: Report, plan: dict[str, Any]) -> str:
    """Format the TLS handshakes of the run, and their rates if each request needs one."""
    tls = report["tls"]
    if not tls or not tls["version"]:
        return ""
    kinds = []
    for kind in ("full", "resumed"):
        per_s = tls[f"handshakes_{kind}_per_s"]
        rate = f" ({per_s:,.1f}/s)" if per_s and not plan["is_persistent"] else ""
        kinds.append(f"{tls[f'handshakes_{kind}']:,} {kind}{rate}")
    return f"{', '.join(kinds)}; {tls['version']}, {tls['cipher_suite']}"


def _failed(report: Report) -> str:
    total = report["ok"] + report["failed"]
    if not report["failed"]:
        return "none"
    share = report["failed"] / total
    return f"{report['failed']:,} of {total:,} ({share:.2%}): {verdict.failures_text(report)}"


def _unfinished(report: Report) -> str:
    """Format how many requests had no response at the end, and for how long the oldest had none."""
    if not report["unfinished"]:
        return ""
    oldest_us = verdict.oldest_us(report)
    age = f", the oldest after {quantity.latency_text(oldest_us)}" if oldest_us else ""
    return f"{report['unfinished']:,}{age}"


def _offered(report: Report, plan: dict[str, Any]) -> str:
    """Format an open loop's rate, the share achieved, and the generator's lateness."""
    if report["offered_per_s"] is None or report["achieved_share"] is None:
        return ""
    lag, drained = (report["schedule_lag_us"] or {}).get("p99"), report.get("drained")
    after = f" ({drained:,} after the end)" if drained else ""
    return (
        f"{report['offered_per_s']:,.1f} {_sent(plan)}/s, {report['achieved_share']:.2%} achieved"
        f"{after}; generator late by {quantity.latency_text(lag)} at p99"
    )


def _latencies(report: Report) -> list[str]:
    """Format the percentiles; for an open loop, the uncorrected ones too."""
    latency, uncorrected = report["latency_us"], report["uncorrected_latency_us"]
    if not report["ok"] or not latency:
        return []
    columns = [("latency", latency)]
    if uncorrected:
        columns = [("from due time", latency), ("from sending", uncorrected)]
    if report["connect_latency_us"]:
        columns.append(("connecting", report["connect_latency_us"]))
    lines = ["".join([f"{'':{LABEL_CELLS}}", *(f"{name:>15}" for name, _ in columns)])]
    for name in ("mean", "stdev", *_NAMES):
        cells = [f"{quantity.latency_text(each.get(name)):>15}" for _, each in columns]
        few = report["ok"] < _SAMPLES_MIN.get(name, 0)
        note = "   (same as max: too few responses)" if few else ""
        lines.append("".join([f"{name.replace('_', '.'):{LABEL_CELLS}}", *cells, note]))
    return lines


def _histogram(report: Report) -> list[str]:
    """Draw a histogram of latencies whose bounds grow by a constant factor."""
    if not report["ok"] or not report["histogram"]:
        return []
    latency_us = report["latency_us"]
    lowest_us = latency_us["min"] or 1
    rows = distribution.bins(report["histogram"], lowest_us, latency_us["max"], BINS_MAX)
    most = max(count for _, _, count in rows)
    total = sum(count for _, _, count in rows)
    lines = []
    for _, upper_us, count in rows:
        cells = count * BAR_CELLS / most
        bar = "█" * round(cells) if cells >= 0.5 else ("▏" if count else "")
        head = f"up to {quantity.latency_text(upper_us):>8}  {bar:{BAR_CELLS}}"
        lines.append(f"{head} {count / total:6.2%} {count:>11,}")
    return lines


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
