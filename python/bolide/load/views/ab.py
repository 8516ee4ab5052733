"""The view of ab (ApacheBench) 2.3: labels, values from column 25, and two tables in ms.

The generator does not record when the first byte arrives: `Waiting` repeats `Processing`, its upper
bound. If every request has its own connection, latency counts from the connect and is `Total`, and
`Processing` is the rest of it after the connect, figure by figure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bolide.load import distribution
from bolide.load.views.run_result import RunResult

VALUE_COLUMN = 24
_SHARES = (50, 66, 75, 80, 90, 95, 98, 99, 100)
_RECEIVE = ("reset", "early_eof", "timeout")
_STREAMS = ("stream_reset", "goaway", "early_response", "handshake", "closed")
_LENGTH = ("short", "long")
_OTHER = ("malformed", "wrong_body", "unexpected_bytes", "late", *_STREAMS)


def page(result: RunResult) -> str:
    """Format the page, without a newline at its end."""
    lines = [
        "This is bolide load, in the manner of ab",
        "",
        f"Benchmarking {result.destination.name} (be patient).....done",
        "",
        "",
        *(
            f"{label + ':':{VALUE_COLUMN}}{value}" if label else value
            for label, value in _head(result)
        ),
    ]
    if result.report["ok"]:
        lines += ["", *_connection_times(result)]
        if not result.options.hides_percentiles and result.report["ok"] > 1:
            lines += ["", *_percentages(result)]
    return "\n".join(lines)


def _head(result: RunResult) -> Iterator[tuple[str, str]]:
    """Yield labels and values; a pair without a label is a line of its own."""
    report = result.report
    yield "Server Software", report["server_software"].partition(" ")[0]
    yield "Server Hostname", result.destination.name
    yield "Server Port", str(result.destination.port)
    yield "", ""
    yield "Document Path", result.plan["requests"][0]["target"]
    yield "Document Length", f"{report['first_content_bytes'] or 0} bytes"
    yield "", ""
    yield "Concurrency Level", str(result.plan["connections"])
    yield "Time taken for tests", f"{report['seconds']:.3f} seconds"
    yield from _counts(result)
    yield from _rates(result)


def _counts(result: RunResult) -> Iterator[tuple[str, str]]:
    report = result.report
    connect, receive = result.errors("connect", "refused", "tls"), result.errors(*_RECEIVE)
    length, other = result.errors(*_LENGTH), result.errors(*_OTHER)
    yield "Complete requests", str(result.responses)
    yield "Failed requests", str(connect + receive + length + other)
    if connect + receive + length + other:
        classes = f"Connect: {connect}, Receive: {receive}, Length: {length}, Exceptions: {other}"
        yield "", f"   ({classes})"
    if result.errors("wrong_status"):
        yield "Non-2xx responses", str(result.errors("wrong_status"))
    if result.plan["is_persistent"]:
        yield "Keep-Alive requests", str(_kept_alive(result))
    yield "Total transferred", f"{report['bytes_received']} bytes"
    if result.plan["requests"][0]["content"] is not None:
        yield "Total body sent", str(_sent_bytes(result))
    yield "HTML transferred", f"{report['content_bytes_received']} bytes"


def _kept_alive(result: RunResult) -> int:
    """Return how many responses kept their connection open: one less per reopened connection."""
    opened: int = result.report["connections_opened"]
    first: int = result.plan["connections"]
    return max(0, result.responses - max(0, opened - first))


def _rates(result: RunResult) -> Iterator[tuple[str, str]]:
    report, rate = result.report, result.report["requests_per_s"]
    mean_ms = 1e3 / rate if rate else 0.0
    of_one_ms = mean_ms * result.plan["connections"]
    received_kib = report["bytes_per_s"] / 1024
    yield "Requests per second", f"{rate:.2f} [#/sec] (mean)"
    yield "Time per request", f"{of_one_ms:.3f} [ms] (mean)"
    yield "Time per request", f"{mean_ms:.3f} [ms] (mean, across all concurrent requests)"
    yield "Transfer rate", f"{received_kib:.2f} [Kbytes/sec] received"
    if result.plan["requests"][0]["content"] is not None:
        sent_kib = _sent_bytes(result) / 1024 / report["seconds"]
        yield "", f"{'':{VALUE_COLUMN}}{sent_kib:.2f} kb/s sent"
        yield "", f"{'':{VALUE_COLUMN}}{sent_kib + received_kib:.2f} kb/s total"


def _sent_bytes(result: RunResult) -> int:
    """Return the bytes of all requests that were sent, heads and content."""
    request = result.plan["requests"][0]
    lines = [("Host", request["host"]), *request["field_lines"]]
    lines.append(("Content-Length", str(len(request["content"]))))
    if result.plan["is_persistent"]:
        lines.append(("Connection", "keep-alive"))
    start = f"{request['method']} {request['target']} HTTP/1.0"
    head = sum(len(f"{name}: {value}") + 2 for name, value in lines) + len(start) + 4
    return int(result.report["requests_sent"] * (head + len(request["content"])))


def _connection_times(result: RunResult) -> list[str]:
    """Format the table of times; a reused connection has a connect time of zero."""
    total, connect, processing = _times(result)
    rows = (
        ("Connect:", connect),
        ("Processing:", processing),
        ("Waiting:", processing),
        ("Total:", total),
    )
    if result.options.hides_deviations:
        lines = ["Connection Times (ms)", "              min   avg   max"]
        names = ("min", "mean", "max")
        return lines + [
            f"{name:11}" + " ".join(f"{_ms(times[key]):5}" for key in names) for name, times in rows
        ]
    lines = ["Connection Times (ms)", "              min  mean[+/-sd] median   max"]
    for name, times in rows:
        head = f"{name:13}{_ms(times['min']):4} {_ms(times['mean']):4}"
        sd = f"{(times['stdev'] or 0) / 1e3:5.1f}"
        lines.append(f"{head} {sd} {_ms(times['p50']):6} {_ms(times['max']):7}")
    return lines


def _times(result: RunResult) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return the times of whole requests, of connects, and of the rest."""
    total = result.report["latency_us"]
    connect = dict.fromkeys(total, 0.0)
    if not result.plan["is_persistent"] and result.report["connect_latency_us"]:
        connect = result.report["connect_latency_us"]
    rest = {name: max(0.0, total[name] - connect[name]) for name in total}
    return total, connect, rest


def _percentages(result: RunResult) -> list[str]:
    lines = ["Percentage of the requests served within a certain time (ms)"]
    for share in _SHARES:
        longest = " (longest request)" if share == 100 else ""
        lines.append(f"{share:4}% {_ms(_served_within(result, share)):6}{longest}")
    return lines


def percentiles_csv(result: RunResult) -> str:
    """Format what `ab -e FILE` writes: a header, and a row for each percentage from 0 to 99."""
    rows = (f"{share},{_served_within(result, share) / 1e3:.3f}" for share in range(100))
    return "\n".join(["Percentage served,Time in ms", *rows, ""])


def _served_within(result: RunResult, share: int) -> float:
    """Return the microseconds within which a percentage was served."""
    total = result.report["latency_us"]
    exact = {0: "min", 100: "max"}.get(share, f"p{share}")
    if exact in total:
        return float(total[exact])
    found = distribution.quantile_us(result.report["histogram"], share / 100) or 0.0
    below = [float(total[name]) for name, p in _known(total) if p < share]
    above = [float(total[name]) for name, p in _known(total) if p > share]
    return min(max(found, *below, 0.0), *above, float(total["max"]))


def _known(total: dict[str, Any]) -> list[tuple[str, float]]:
    """Return the percentiles that the report itself contains, by name and percentage."""
    names = [name for name in total if name.startswith("p")]
    return [(name, float(name[1:].replace("_", "."))) for name in names]


def _ms(microseconds: float) -> int:
    return int(microseconds / 1e3 + 0.5)
