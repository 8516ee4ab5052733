"""From trials to the table: medians, ratios within a round, verdicts."""

from collections.abc import Callable
from statistics import median, quantiles
from typing import Any

from measure import is_noisy
from rows import IDLE_MEMORY_MAX, OWN_SHARE_MAX, ROWS, START_MEMORY_MAX, Bar, Row
from workloads import timed

Trial = dict[str, Any]
Trials = list[Trial]
Rounds = dict[int, Trial]

HEAD = (
    "| workload | Bolide, requests/s | against | requests/s "
    "| ratio (quartiles) | per server CPU | must reach | verdict "
    "| CPU of server / generator | remarks |\n"
    "| --- | ---: | --- | ---: | ---: | ---: | ---: | --- | ---: | --- |"
)

SHARE_HEAD = (
    "| framework | in it, us per request in Bolide | Bolide's own share, us | against "
    "| in it, us | its own share, us | ratio (quartiles) | at most | verdict | remarks |\n"
    "| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | --- | --- |"
)


def table(trials: Trials) -> str:
    """Give the table as Markdown."""
    lines = [HEAD]
    for row in ROWS:
        if _of(trials, "bolide", row.workload.name) or any(
            _of(trials, bar.contestant, bar.workload.name) for bar in row.bars
        ):
            lines += [_line(trials, row, bar) for bar in row.bars]
    lines += _share_lines(trials)
    lines += _memory_lines([trial for trial in trials if trial["workload"] == "memory"])
    return "\n".join(lines)


def _of(trials: Trials, contestant: str, workload: str) -> Trials:
    return [
        trial
        for trial in trials
        if trial["contestant"] == contestant and trial["workload"] == workload
    ]


def _good(trials: Trials) -> Rounds:
    return {trial["round"]: trial for trial in trials if trial["failure"] is None}


def _line(trials: Trials, row: Row, bar: Bar) -> str:
    ours_all = _of(trials, "bolide", row.workload.name)
    theirs_all = _of(trials, bar.contestant, bar.workload.name)
    ours, theirs = _good(ours_all), _good(theirs_all)
    remarks = _remarks(ours_all, theirs_all, bar.contestant)
    ratios = _ratios(ours, theirs, _rate_of)
    shown, shown_per_cpu, verdict = "", "", "not measured"
    if ratios:
        shown = _spread(ratios)
        judged = median(ratios)
        per_cpu = median(_ratios(ours, theirs, _rate_per_cpu))
        shown_per_cpu = f"{per_cpu:.2f}"
        if row.is_per_cpu:
            judged = per_cpu
            remarks.append("judged per server CPU")
        elif _is_generator_bound(ours) and _is_generator_bound(theirs):
            judged = per_cpu
            remarks.append("the generator was the limit of both: judged per server CPU")
        elif _is_generator_bound(ours) or _is_generator_bound(theirs):
            limited = "bolide" if _is_generator_bound(ours) else bar.contestant
            remarks.append(f"the generator was the limit of {limited}")
        verdict = _verdict(judged, bar.ratio)
    cells = (
        row.title,
        _rate(ours),
        bar.contestant,
        _rate(theirs),
        shown,
        shown_per_cpu,
        "" if bar.ratio is None else f"{bar.ratio:.2f}",
        verdict,
        f"{_shares(ours)}; {_shares(theirs)}",
        "; ".join(remarks),
    )
    return "| " + " | ".join(cells) + " |"


def _verdict(judged: float, least: float | None) -> str:
    if least is None:
        return ""
    return "reached" if judged >= least else "**missed**"


def _rate_of(trial: Trial) -> float:
    return float(trial["requests_per_s"])


def _rate_per_cpu(trial: Trial) -> float:
    return float(trial["requests_per_s"] / max(trial["server_cpu"], 1e-9))


def _ratios(ours: Rounds, theirs: Rounds, figure: Callable[[Trial], float]) -> list[float]:
    """Give the ratio of every round in which both sides were measured."""
    both = sorted(set(ours) & set(theirs))
    return [figure(ours[at]) / figure(theirs[at]) for at in both if figure(theirs[at]) > 0]


def _spread(ratios: list[float]) -> str:
    low, _, high = quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    return f"{median(ratios):.2f} ({low:.2f} to {high:.2f})"


def _is_generator_bound(good: Rounds) -> bool:
    generator = median(trial["generator_cpu"] for trial in good.values())
    server = median(trial["server_cpu"] for trial in good.values())
    return bool(generator > 0.95 and server < 0.95)


def _rate(good: Rounds) -> str:
    if not good:
        return ""
    return f"{median(trial['requests_per_s'] for trial in good.values()):,.0f}"


def _shares(good: Rounds) -> str:
    if not good:
        return ""
    server = median(trial["server_cpu"] for trial in good.values())
    generator = median(trial["generator_cpu"] for trial in good.values())
    return f"{server:.2f} / {generator:.2f}"


def _remarks(ours: Trials, theirs: Trials, contestant: str) -> list[str]:
    remarks = []
    for name, trials in (("bolide", ours), (contestant, theirs)):
        failures = [trial["failure"] for trial in trials if trial["failure"] is not None]
        if failures and len(failures) == len(trials):
            remarks.append(f"{name} not available: {failures[0]}")
        elif failures:
            remarks.append(f"{name} failed {len(failures)} of {len(trials)}: {failures[0]}")
    noisy = [trial for trial in ours + theirs if is_noisy(trial)]
    if noisy:
        remarks.append(f"noisy: other work in {len(noisy)} of {len(ours) + len(theirs)} trials")
    return remarks


def _share_lines(trials: Trials) -> list[str]:
    """Give the table of the servers' own shares: what a request costs outside of the framework."""
    lines = [
        _share_line(trials, row, bar)
        for row in ROWS
        if row.workload.is_framework
        for bar in row.bars
        if _of(trials, bar.contestant, timed(bar.workload).name)
    ]
    return ["", SHARE_HEAD, *lines] if lines else []


def _share_line(trials: Trials, row: Row, bar: Bar) -> str:
    name = timed(row.workload).name
    ours_all, theirs_all = _of(trials, "bolide", name), _of(trials, bar.contestant, name)
    ours, theirs = _good(ours_all), _good(theirs_all)
    ratios = _ratios(ours, theirs, _server_us)
    verdict = "not measured"
    if ratios:
        verdict = "reached" if median(ratios) <= OWN_SHARE_MAX else "**missed**"
    cells = (
        row.title,
        _median(ours, "application_us"),
        _median(ours, "server_us"),
        bar.contestant,
        _median(theirs, "application_us"),
        _median(theirs, "server_us"),
        _spread(ratios) if ratios else "",
        f"{OWN_SHARE_MAX:.2f}",
        verdict,
        "; ".join(_remarks(ours_all, theirs_all, bar.contestant)),
    )
    return "| " + " | ".join(cells) + " |"


def _server_us(trial: Trial) -> float:
    return float(trial["server_us"])


def _median(good: Rounds, figure: str) -> str:
    return f"{median(trial[figure] for trial in good.values()):.1f}" if good else ""


def _memory_lines(trials: Trials) -> list[str]:
    if not trials:
        return []
    good = [trial for trial in trials if trial["failure"] is None]
    if not good:
        return ["", f"Memory not measured: {trials[0]['failure']}"]
    start = median(trial["start_bytes"] for trial in good)
    idle = median(trial["idle_bytes_each"] for trial in good)

    def verdict(reached: bool) -> str:
        return "reached" if reached else "**missed**"

    return [
        "",
        "| memory of the worker process | measured | at most | verdict |",
        "| --- | ---: | ---: | --- |",
        f"| at start | {start / 2**20:.1f} MB | {START_MEMORY_MAX / 2**20:.0f} MB "
        f"| {verdict(start <= START_MEMORY_MAX)} |",
        f"| per idle connection (10,000 of them) | {idle:,.0f} bytes | {IDLE_MEMORY_MAX:,} bytes "
        f"| {verdict(idle <= IDLE_MEMORY_MAX)} |",
    ]
