"""Shows a server's status as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bolide.manage.rates import Rates

COLUMNS = ("worker", "pid", "state", "age", "memory", "requests", "connections", "busy")
BUSY_S_MIN = 0.01
"""A worker that has been busy for less is only serving."""


def status_text(status: Mapping[str, Any]) -> str:
    """Return the status of a server as lines."""
    return "\n".join(
        [*_server_lines(status), "", *_worker_lines(status, {}), *_option_lines(status)]
    )


def top_text(
    status: Mapping[str, Any],
    rates: Rates,
    samples: Mapping[str, float],
    per_worker: Mapping[int, float],
) -> str:
    """Return what happens in a server as lines; `per_worker` has requests per second by pid."""
    shown = "  ".join(f"{name} {value:,.0f}/s" for name, value in sorted(rates.by_status.items()))
    lines = [
        f"requests   {rates.requests:,.0f}/s  {shown}".rstrip(),
        f"durations  median {_duration(rates.median_s)}  99 % {_duration(rates.p99_s)}",
        f"traffic    in {_size(rates.received_bytes)}/s  out {_size(rates.sent_bytes)}/s",
        f"open       connections {samples.get('bolide_connections', 0):,.0f}"
        f"  WebSockets {samples.get('bolide_websockets', 0):,.0f}"
        f"  waiting requests {samples.get('bolide_requests_waiting', 0):,.0f}",
        f"held       {_size(samples.get('bolide_held_bytes', 0))}",
    ]
    return "\n".join([*_server_lines(status), *lines, "", *_worker_lines(status, per_worker)])


def _server_lines(status: Mapping[str, Any]) -> list[str]:
    doing = ", reloading" if status["is_reloading"] else ""
    doing += ", upgrading" if status.get("is_upgrading") else ""
    exits = ", ".join(f"{count} {cause}" for cause, count in status["exits"].items())
    lines = [
        f"Bolide {status['version']} {status['state']} {status['application']}"
        f" (pid {status['pid']}, for {_age(status['age_s'])}{doing})"
    ]
    return [*lines, f"workers that have ended: {exits}"] if exits else lines


def _worker_lines(status: Mapping[str, Any], per_worker: Mapping[int, float]) -> list[str]:
    columns = (*COLUMNS, "requests/s") if per_worker else COLUMNS
    rows = [columns]
    for each in status["workers"]:
        row = (
            str(each["number"]),
            str(each["pid"]),
            each["state"],
            _age(each["age_s"]),
            _size(each["rss_bytes"]),
            f"{each['requests']:,}",
            f"{each['connections']:,}",
            _age(each["busy_s"]) if each["busy_s"] >= BUSY_S_MIN else "-",
        )
        rate = per_worker.get(each["pid"], 0.0)
        rows.append((*row, f"{rate:,.0f}") if per_worker else row)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True))
        for row in rows
    ]


def _option_lines(status: Mapping[str, Any]) -> list[str]:
    options = status["options"]
    shown = [f"  {name} = {value}" for name, value in options.items()]
    return ["", "options that are not defaults:", *shown] if shown else []


def _age(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.3g} s"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if seconds == float("inf"):
        return "> 60 s"
    return f"<= {seconds * 1000:g} ms" if seconds < 1 else f"<= {seconds:g} s"


def _size(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} TiB"
