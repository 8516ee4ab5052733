"""From trials to the table: medians, ratios within a round, verdicts."""

from collections.abc import Callable
from statistics import median
from typing import Any

from measure import is_noisy
from rows import IDLE_MEMORY_MAX, OWN_SHARE_MAX, ROWS, START_MEMORY_MAX, Bar, Row

Trial = dict[str, Any]
Trials = list[Trial]
Rounds = dict[int, Trial]

HEAD = (
    "| workload | Bolide, requests/s | against | requests/s "
    "| ratio (least to most) | per server CPU | must reach | verdict "
    "| CPU of server / generator | remarks |\n"
    "| --- | ---: | --- | ---: | ---: | ---: | ---: | --- | ---: | --- |"
)

SHARE_HEAD = (
    "| framework | by itself, us per call | Bolide's own share, us per request | against "
    "| its own share | ratio (least to most) | at most | verdict |\n"
    "| --- | ---: | ---: | --- | ---: | ---: | ---: | --- |"
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
        verdict = "reached" if judged >= bar.ratio else "**missed**"
    cells = (
        row.title,
        _rate(ours),
        bar.contestant,
        _rate(theirs),
        shown,
        shown_per_cpu,
        f"{bar.ratio:.2f}",
        verdict,
        f"{_shares(ours)}; {_shares(theirs)}",
        "; ".join(remarks),
    )
    return "| " + " | ".join(cells) + " |"


def _rate_of(trial: Trial) -> float:
    return float(trial["requests_per_s"])


def _rate_per_cpu(trial: Trial) -> float:
    return float(trial["requests_per_s"] / max(trial["server_cpu"], 1e-9))


def _ratios(ours: Rounds, theirs: Rounds, figure: Callable[[Trial], float]) -> list[float]:
    """Give the ratio of every round in which both sides were measured."""
    both = sorted(set(ours) & set(theirs))
    return [figure(ours[at]) / figure(theirs[at]) for at in both if figure(theirs[at]) > 0]


def _spread(ratios: list[float]) -> str:
    return f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


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
    """Give the table of the servers' own shares: what a request costs beside the framework."""
    lines = []
    for row in ROWS:
        if not row.workload.is_framework:
            continue
        alone = _good(_of(trials, "application", row.workload.name))
        ours = _own_share_us(trials, "bolide", row, alone)
        for bar in row.bars:
            theirs = _own_share_us(trials, bar.contestant, row, alone)
            both = sorted(set(ours) & set(theirs))
            if both:
                lines.append(_share_line(row, bar, alone, [(ours[at], theirs[at]) for at in both]))
    return ["", SHARE_HEAD, *lines] if lines else []


def _share_line(row: Row, bar: Bar, alone: Rounds, pairs: list[tuple[float, float]]) -> str:
    ratios = [ours / theirs if theirs > 0 else float("inf") for ours, theirs in pairs]
    cells = (
        row.title,
        f"{median(trial['application_us'] for trial in alone.values()):.1f}",
        f"{median(ours for ours, _ in pairs):.1f}",
        bar.contestant,
        f"{median(theirs for _, theirs in pairs):.1f}",
        _spread(ratios),
        f"{OWN_SHARE_MAX:.2f}",
        "reached" if median(ratios) <= OWN_SHARE_MAX else "**missed**",
    )
    return "| " + " | ".join(cells) + " |"


def _own_share_us(trials: Trials, contestant: str, row: Row, alone: Rounds) -> dict[int, float]:
    """Give, for each round, the processor time per request without what the framework takes."""
    good = _good(_of(trials, contestant, row.workload.name))
    return {
        at: 1e6 / _rate_per_cpu(good[at]) - alone[at]["application_us"]
        for at in set(good) & set(alone)
        if good[at]["requests_per_s"] > 0
    }


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
