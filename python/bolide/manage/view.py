"""Shows a server's status as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from bolide.manage.rates import Rates
from bolide.manage.slowest import Slowest
from bolide.manage.status import Status
from bolide.visible import visible

COLUMNS = ("worker", "pid", "state", "age", "memory", "requests", "connections", "busy")
REQUESTS = COLUMNS.index("requests")
BUSY_S_MIN = 0.01
"""A worker that has been busy for less is only serving."""
UNKNOWN = "unknown"
"""What a server of another version does not say."""

Value = TypeVar("Value")


def status_text(status: Status) -> str:
    """Return the status of a server as lines."""
    return "\n".join(
        [*_server_lines(status), "", *_worker_lines(status, {}), *_option_lines(status)]
    )


def top_text(
    status: Status,
    rates: Rates,
    samples: Mapping[str, float],
    per_worker: Mapping[int, float],
    routes: Sequence[Slowest] | None,
) -> str:
    """Return what happens in a server as lines; `per_worker` has requests per second by pid."""
    by_status = sorted(rates.by_status.items())
    shown = "  ".join(f"{visible(name)} {value:,.0f}/s" for name, value in by_status)
    lines = [
        f"requests   {rates.requests:,.0f}/s  {shown}".rstrip(),
        f"durations  median {_duration(rates.median_s)}  99 % {_duration(rates.p99_s)}",
        f"traffic    in {_size(rates.received_bytes)}/s  out {_size(rates.sent_bytes)}/s",
        f"open       connections {samples.get('bolide_connections', 0):,.0f}"
        f"  WebSockets {samples.get('bolide_websockets', 0):,.0f}"
        f"  waiting requests {samples.get('bolide_requests_waiting', 0):,.0f}",
        f"held       {_size(samples.get('bolide_held_bytes', 0))}",
        *_route_lines(routes),
    ]
    return "\n".join([*_server_lines(status), *lines, "", *_worker_lines(status, per_worker)])


def _route_lines(routes: Sequence[Slowest] | None) -> list[str]:
    if not routes:
        return [
            f"slowest    {UNKNOWN if routes is None else 'no request that took 10 ms has ended'}"
        ]
    headings = ("slowest", *[""] * (len(routes) - 1))
    return [
        f"{heading:<9}  {_mean(each.mean_s):<8}  {_rate(each.requests)}  {visible(each.route)}"
        for heading, each in zip(headings, routes, strict=True)
    ]


def _server_lines(status: Status) -> list[str]:
    doing = ", reloading" if status.is_reloading else ""
    doing += ", upgrading" if status.is_upgrading else ""
    ended = (status.exits or {}).items()
    exits = ", ".join(f"{count} {visible(cause)}" for cause, count in ended)
    version, state, name = map(_text, (status.version, status.state, status.application))
    pid, age = _known(status.pid, str), _known(status.age_s, _age)
    lines = [f"Bolide {version} {state} {name} (pid {pid}, for {age}{doing})"]
    return [*lines, f"workers that have ended: {exits}"] if exits else lines


def _worker_lines(status: Status, per_worker: Mapping[int, float]) -> list[str]:
    columns = (*COLUMNS, "requests/s") if per_worker else COLUMNS
    rows: list[tuple[str, ...]] = [columns]
    for each in status.workers:
        row = (
            _known(each.number, str),
            _known(each.pid, str),
            _text(each.state),
            _known(each.age_s, _age),
            _known(each.rss_bytes, _size),
            _known(each.requests, "{:,}".format),
            _known(each.connections, "{:,}".format),
            _known(each.busy_s, lambda busy_s: _age(busy_s) if busy_s >= BUSY_S_MIN else "-"),
        )
        rate = 0.0 if each.pid is None else per_worker.get(each.pid, 0.0)
        rows.append((*row, f"{rate:,.0f}") if per_worker else row)
    if per_worker:  # the totals would not fit into 80 columns
        rows = [row[:REQUESTS] + row[REQUESTS + 1 :] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True))
        for row in rows
    ]


def _option_lines(status: Status) -> list[str]:
    options = status.options or {}
    shown = [f"  {visible(name)} = {visible(str(value))}" for name, value in options.items()]
    return ["", "options that are not defaults:", *shown] if shown else []


def _known(value: Value | None, as_text: Callable[[Value], str]) -> str:
    return UNKNOWN if value is None else as_text(value)


def _text(value: str | None) -> str:
    return _known(value, visible)


def _age(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.3g} s"


def _mean(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms" if seconds < 0.9995 else f"{_short(seconds)} s"


def _rate(per_s: float) -> str:
    return f"{_short(per_s)}/s"


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"


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
