"""The view of ab (ApacheBench) 2.3: labels, values from column 25 on, and two tables in ms.

The generator takes no time of a first byte: `Waiting` repeats `Processing`, its upper bound. Where
every request has a connection of its own, latency counts from the connect and is `Total`;
`Processing` is what the connect leaves of it, figure by figure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bolide.load import distribution
from bolide.load.views.sheet import Sheet

VALUE_COLUMN = 24
_SHARES = (50, 66, 75, 80, 90, 95, 98, 99, 100)
_RECEIVE = ("reset", "early_eof", "timeout")
_LENGTH = ("short", "long")
_OTHER = ("malformed", "wrong_body", "unexpected_bytes", "late")


def page(sheet: Sheet) -> str:
    """Write the page, without a newline at its end."""
    lines = [
        "This is bolide load, in the manner of ab",
        "",
        f"Benchmarking {sheet.destination.name} (be patient).....done",
        "",
        "",
        *(
            f"{label + ':':{VALUE_COLUMN}}{value}" if label else value
            for label, value in _head(sheet)
        ),
    ]
    if sheet.report["ok"]:
        lines += ["", *_connection_times(sheet)]
        if not sheet.options.hides_percentiles and sheet.report["ok"] > 1:
            lines += ["", *_percentages(sheet)]
    return "\n".join(lines)


def _head(sheet: Sheet) -> Iterator[tuple[str, str]]:
    """Give labels and values; a pair without a label is a line of its own."""
    report = sheet.report
    yield "Server Software", report["server_software"].partition(" ")[0]
    yield "Server Hostname", sheet.destination.name
    yield "Server Port", str(sheet.destination.port)
    yield "", ""
    yield "Document Path", sheet.plan["requests"][0]["target"]
    yield "Document Length", f"{report['first_content_bytes'] or 0} bytes"
    yield "", ""
    yield "Concurrency Level", str(sheet.plan["connections"])
    yield "Time taken for tests", f"{report['seconds']:.3f} seconds"
    yield from _counts(sheet)
    yield from _rates(sheet)


def _counts(sheet: Sheet) -> Iterator[tuple[str, str]]:
    report = sheet.report
    connect, receive = sheet.errors("connect", "refused"), sheet.errors(*_RECEIVE)
    length, other = sheet.errors(*_LENGTH), sheet.errors(*_OTHER)
    yield "Complete requests", str(sheet.responses)
    yield "Failed requests", str(connect + receive + length + other)
    if connect + receive + length + other:
        classes = f"Connect: {connect}, Receive: {receive}, Length: {length}, Exceptions: {other}"
        yield "", f"   ({classes})"
    if sheet.errors("wrong_status"):
        yield "Non-2xx responses", str(sheet.errors("wrong_status"))
    if sheet.plan["is_persistent"]:
        yield "Keep-Alive requests", str(_kept_alive(sheet))
    yield "Total transferred", f"{report['bytes_received']} bytes"
    if sheet.plan["requests"][0]["content"] is not None:
        yield "Total body sent", str(_sent_bytes(sheet))
    yield "HTML transferred", f"{report['content_bytes_received']} bytes"


def _kept_alive(sheet: Sheet) -> int:
    """Give how many responses left their connection open: all but one for each one opened again."""
    opened: int = sheet.report["connections_opened"]
    first: int = sheet.plan["connections"]
    return max(0, sheet.responses - max(0, opened - first))


def _rates(sheet: Sheet) -> Iterator[tuple[str, str]]:
    report, rate = sheet.report, sheet.report["requests_per_s"]
    mean_ms = 1e3 / rate if rate else 0.0
    of_one_ms = mean_ms * sheet.plan["connections"]
    received_kib = report["bytes_per_s"] / 1024
    yield "Requests per second", f"{rate:.2f} [#/sec] (mean)"
    yield "Time per request", f"{of_one_ms:.3f} [ms] (mean)"
    yield "Time per request", f"{mean_ms:.3f} [ms] (mean, across all concurrent requests)"
    yield "Transfer rate", f"{received_kib:.2f} [Kbytes/sec] received"
    if sheet.plan["requests"][0]["content"] is not None:
        sent_kib = _sent_bytes(sheet) / 1024 / report["seconds"]
        yield "", f"{'':{VALUE_COLUMN}}{sent_kib:.2f} kb/s sent"
        yield "", f"{'':{VALUE_COLUMN}}{sent_kib + received_kib:.2f} kb/s total"


def _sent_bytes(sheet: Sheet) -> int:
    """Give the bytes of all requests that were sent, heads and contents."""
    request = sheet.plan["requests"][0]
    lines = [("Host", request["host"]), *request["field_lines"]]
    lines.append(("Content-Length", str(len(request["content"]))))
    if sheet.plan["is_persistent"]:
        lines.append(("Connection", "keep-alive"))
    start = f"{request['method']} {request['target']} HTTP/1.0"
    head = sum(len(f"{name}: {value}") + 2 for name, value in lines) + len(start) + 4
    return int(sheet.report["requests_sent"] * (head + len(request["content"])))


def _connection_times(sheet: Sheet) -> list[str]:
    """Write the table of times; a reused connection has a connect time of zero."""
    total, connect, processing = _times(sheet)
    rows = (
        ("Connect:", connect),
        ("Processing:", processing),
        ("Waiting:", processing),
        ("Total:", total),
    )
    if sheet.options.hides_deviations:
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


def _times(sheet: Sheet) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Give the times of whole requests, of connects, and of what is between."""
    total = sheet.report["latency_us"]
    connect = dict.fromkeys(total, 0.0)
    if not sheet.plan["is_persistent"] and sheet.report["connect_latency_us"]:
        connect = sheet.report["connect_latency_us"]
    rest = {name: max(0.0, total[name] - connect[name]) for name in total}
    return total, connect, rest


def _percentages(sheet: Sheet) -> list[str]:
    lines = ["Percentage of the requests served within a certain time (ms)"]
    for share in _SHARES:
        longest = " (longest request)" if share == 100 else ""
        lines.append(f"{share:4}% {_ms(_served_within(sheet, share)):6}{longest}")
    return lines


def percentiles_csv(sheet: Sheet) -> str:
    """Write what `ab -e FILE` writes: a header, and a row for each percentage from 0 to 99."""
    rows = (f"{share},{_served_within(sheet, share) / 1e3:.3f}" for share in range(100))
    return "\n".join(["Percentage served,Time in ms", *rows, ""])


def _served_within(sheet: Sheet, share: int) -> float:
    """Give the microseconds within which a percentage was served."""
    total = sheet.report["latency_us"]
    exact = {0: "min", 100: "max"}.get(share, f"p{share}")
    if exact in total:
        return float(total[exact])
    found = distribution.quantile_us(sheet.report["histogram"], share / 100) or 0.0
    below = [float(total[name]) for name, p in _known(total) if p < share]
    above = [float(total[name]) for name, p in _known(total) if p > share]
    return min(max(found, *below, 0.0), *above, float(total["max"]))


def _known(total: dict[str, Any]) -> list[tuple[str, float]]:
    """Give the percentiles that the report itself holds, by name and percentage."""
    names = [name for name in total if name.startswith("p")]
    return [(name, float(name[1:].replace("_", "."))) for name in names]


def _ms(microseconds: float) -> int:
    return int(microseconds / 1e3 + 0.5)
