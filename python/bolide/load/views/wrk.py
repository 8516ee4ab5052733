"""The view of wrk 4: thread statistics, the distribution, and rates.

Latency is each request's own, to the microsecond and without invented samples: wrk takes one sample
per pipelined batch, and adds synthetic ones after the run.
"""

from __future__ import annotations

from bolide.load import distribution
from bolide.load.plan import length_s
from bolide.load.views.run_result import RunResult

SWITCH = 0.85
"""From this share of the next unit, a figure is written in that unit."""
_TIMES = (("us", 1.0), ("ms", 1e3), ("s", 1e6), ("m", 60e6))
_COUNTS = (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12))
_SIZES = (("B", 1.0), ("KB", 2.0**10), ("MB", 2.0**20), ("GB", 2.0**30), ("TB", 2.0**40))
_READ = (
    *("reset", "early_eof", "short", "long", "malformed", "unexpected_bytes"),
    *("stream_reset", "goaway", "early_response", "closed"),
)
Units = tuple[tuple[str, float], ...]


def page(result: RunResult) -> str:
    """Format the page, without a newline at its end."""
    report = result.report
    seconds = max(1.0, length_s(result.plan) or report["seconds"])
    shown = "".join(_scaled(seconds * 1e6, _TIMES, 0))
    lines = [
        f"Running {shown} test @ {result.url}",
        f"  {result.plan['threads']} threads and {result.plan['connections']} connections",
        "  Thread Stats   Avg      Stdev     Max   +/- Stdev",
        _latency_row(result),
        _rate_row(result),
    ]
    if result.options.shows_percentiles:
        lines += ["  Latency Distribution", *_percentiles(result)]
    received = "".join(_scaled(report["bytes_received"], _SIZES))
    elapsed = "".join(_scaled(report["seconds"] * 1e6, _TIMES))
    lines.append(f"  {result.responses} requests in {elapsed}, {received} read")
    return "\n".join([*lines, *_failures(result), *_rates(result)])


def _failures(result: RunResult) -> list[str]:
    """Format the failures: those below HTTP, and the statuses above 399."""
    connect, timeout = result.errors("connect", "refused", "tls"), result.errors("timeout")
    read = result.errors(*_READ)
    lines = []
    if connect or read or timeout:
        lines.append(f"  Socket errors: connect {connect}, read {read}, write 0, timeout {timeout}")
    if result.statuses_from(400):
        lines.append(f"  Non-2xx or 3xx responses: {result.statuses_from(400)}")
    return lines


def _rates(result: RunResult) -> list[str]:
    number, unit = _scaled(result.report["bytes_per_s"], _SIZES)
    return [
        f"Requests/sec:{result.report['requests_per_s']:10.2f}",
        f"Transfer/sec:{number:>10}{unit}",
    ]


def _latency_row(result: RunResult) -> str:
    latency = result.report["latency_us"]
    if not result.report["ok"]:
        return _row("Latency", (0.0, 0.0, 0.0), _TIMES, None)
    mean, stdev = latency["mean"], latency["stdev"] or 0.0
    within = distribution.share_between(result.report["histogram"], mean - stdev, mean + stdev)
    return _row("Latency", (mean, stdev, latency["max"]), _TIMES, within)


def _rate_row(result: RunResult) -> str:
    """Format requests per second and thread, from the series of whole seconds."""
    series = [each["ok"] for each in result.report["per_second"]]
    whole = series[: int(result.report["seconds"])] or [result.report["requests_per_s"]]
    rates = [count / result.plan["threads"] for count in whole]
    mean = sum(rates) / len(rates)
    squares = sum((rate - mean) ** 2 for rate in rates)
    stdev = (squares / (len(rates) - 1)) ** 0.5 if len(rates) > 1 else 0.0
    within = sum(abs(rate - mean) <= stdev for rate in rates) / len(rates)
    return _row("Req/Sec", (mean, stdev, max(rates)), _COUNTS, within)


def _row(name: str, figures: tuple[float, float, float], units: Units, share: float | None) -> str:
    """Format a row whose numbers end in the same columns, whatever their units."""
    cells = [f"    {name}"]
    for width, figure in zip((9, 8, 7), figures, strict=True):
        number, unit = _scaled(figure, units)
        cells.append(f"{number:>{width}}{unit:2}")
    cells.append(f"{'-nan' if share is None else f'{share * 100:.2f}':>8}%")
    return "".join(cells)


def _percentiles(result: RunResult) -> list[str]:
    lines = []
    for percent in (50, 75, 90, 99):
        figure = result.report["latency_us"][f"p{percent}"] if result.report["ok"] else 0.0
        number, unit = _scaled(figure, _TIMES)
        lines.append(f"{percent:7}%{number:>8}{unit}")
    return lines


def _scaled(figure: float, units: Units, decimals: int = 2) -> tuple[str, str]:
    """Format a figure with the unit that wrk would use, as number and unit."""
    unit, factor = units[0]
    for larger_unit, larger_factor in units[1:]:
        if figure < SWITCH * larger_factor:
            break
        unit, factor = larger_unit, larger_factor
    return f"{figure / factor:.{decimals}f}", unit
