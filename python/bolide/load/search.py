"""The search for the highest rate that meets a condition: `--find "p99 < 10ms"`.

Every trial is an open loop at a constant rate, so latency counts from the moment at which a request
was due. The rate doubles until one fails (or halves until one holds), then the gap is halved until
it is small. A single bad trial may be caused by another process: a rate fails if two of at most
three trials fail, and the resulting rate has been tried three times.

A trial whose result is not valid (of a fleet that lost an agent, say) is no evidence about the
server: it is repeated, and if that does not help, the search ends without a limit of the server.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bolide.errors import Error
from bolide.load import verdict
from bolide.load.run import Outcome
from bolide.load.threshold import Threshold

Report = dict[str, Any]

START_PER_S = 1_000.0
RATE_MIN_PER_S = 1.0
RATE_MAX_PER_S = 100e6
GAP = 1.05
"""The search ends when the lowest rate that failed is within this factor of the best that held."""
TRIALS_A_RATE = 3
TRIALS_MAX = 60
INVALID_TRIALS_MAX = 3
"""So many trials in turn that are not valid end the search."""
FAILED_SHARE_MAX = 0.001
"""A trial with more failures does not hold, whatever its latency."""
SLOWER = 1.5
"""If the server responds more slowly than at the lowest rate by this factor, it has no time left,
although all connections are busy."""
LAG_SHARE = 0.1
"""If the generator was late by more than this share of a latency limit, it was the bottleneck."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One run at a rate: whether the condition held, and if not, why."""

    number: int
    rate_per_s: float
    report: Report
    holds: bool
    reason: str
    invalid: str = ""
    """Why it is no evidence; it does not hold then, and it does not fail either."""


@dataclass(slots=True)
class Search:
    """The trials so far, and what follows from them."""

    threshold: Threshold
    trials: list[Trial] = field(default_factory=list)
    is_sleepless: bool = False
    is_confirmed: bool = False
    was_interrupted: bool = False
    interrupted: Trial | None = None
    """The trial that was running then."""
    ended: str = ""
    """Why a trial could not be run, which ended the search."""

    def at(self, rate_per_s: float) -> list[Trial]:
        """Return the trials at a rate that are evidence."""
        return [each for each in self.trials if each.rate_per_s == rate_per_s and not each.invalid]

    def holds(self, rate_per_s: float) -> bool | None:
        """Return whether a rate holds; None while its trials do not say it."""
        trials = self.at(rate_per_s)
        held = sum(trial.holds for trial in trials)
        failed = len(trials) - held
        if held > 1 or failed == 0:
            return True if held else None
        return False if failed > 1 or not self.has_responses else None

    @property
    def has_responses(self) -> bool:
        """Whether any response was correct; without one, a trial is not repeated."""
        return any(each.report["ok"] for each in self.trials if not each.invalid)

    @property
    def failed(self) -> Trial | None:
        """The last failure at the lowest rate that fails."""
        failed = [each for each in self.trials if self.holds(each.rate_per_s) is False]
        failures = [each for each in failed if not (each.holds or each.invalid)]
        return min(reversed(failures), key=lambda each: each.rate_per_s, default=None)

    @property
    def last_failure(self) -> Trial | None:
        """The last trial that failed, whether or not its rate does."""
        return next((each for each in reversed(self.trials) if not each.holds), None)

    @property
    def held(self) -> Trial | None:
        """The last success at the highest rate that holds, and below the lowest that fails."""
        below = self.failed.rate_per_s if self.failed else RATE_MAX_PER_S * 2
        held = [each for each in self.trials if each.holds and self.holds(each.rate_per_s)]
        candidates = [each for each in reversed(held) if each.rate_per_s < below]
        return max(candidates, key=lambda each: each.rate_per_s, default=None)

    @property
    def unmeasured(self) -> Trial | None:
        """The last trial, if none of the last ones was valid, which ends the search."""
        last = self.trials[-INVALID_TRIALS_MAX:]
        is_end = len(last) == INVALID_TRIALS_MAX and all(each.invalid for each in last)
        return last[-1] if is_end else None

    def next_rate(self, start_per_s: float) -> float | None:
        """Return the rate to try next; None if the search is complete."""
        if not self.trials:
            return start_per_s
        last, held, failed = self.trials[-1], self.held, self.failed
        if len(self.trials) >= TRIALS_MAX or self.unmeasured:
            return None
        if last.invalid:
            return last.rate_per_s
        if held is None and not last.report["ok"]:
            return None
        if self.holds(last.rate_per_s) is None:
            return last.rate_per_s
        if held is None or failed is None:
            rate = last.rate_per_s * 2 if failed is None else failed.rate_per_s / 2
            return rate if RATE_MIN_PER_S <= rate <= RATE_MAX_PER_S else None
        if failed.rate_per_s / held.rate_per_s > GAP:
            return _rounded((held.rate_per_s + failed.rate_per_s) / 2)
        if len(self.at(held.rate_per_s)) < TRIALS_A_RATE:
            return held.rate_per_s
        self.is_confirmed = True
        return None

    def add(self, rate_per_s: float, report: Report) -> Trial:
        """Evaluate a trial and add it."""
        invalid = _invalidity(report)
        reason = invalid or failure(self.threshold, report)
        number = len(self.trials) + 1
        trial = Trial(number, rate_per_s, report, not reason, reason, invalid)
        self.trials.append(trial)
        return trial


def find(
    threshold: Threshold,
    measure: Callable[[float], Outcome],
    show_trial: Callable[[Trial], None],
    start_per_s: float = START_PER_S,
    is_sleepless: bool = False,
) -> Search:
    """Search; `measure` runs a rate, and `show_trial` is called with each trial.

    An interrupted trial ends the search and is not evaluated. So does one that cannot be run, and
    an interrupt between two trials, if there are others, whose results would be lost otherwise.

    Raises:
        Error: the first trial cannot be run.
    """
    search = Search(threshold, is_sleepless=is_sleepless)
    try:
        _run_trials(search, measure, show_trial, start_per_s)
    except KeyboardInterrupt:
        if not search.trials:
            raise
        search.was_interrupted = True
    return search


def _run_trials(
    search: Search,
    measure: Callable[[float], Outcome],
    show_trial: Callable[[Trial], None],
    start_per_s: float,
) -> None:
    """Run trials until the search is complete, or one ends it."""
    while (rate := search.next_rate(start_per_s)) is not None:
        try:
            outcome = measure(rate)
        except Error as error:
            if not search.trials:
                raise
            search.ended = str(error)
            break
        if outcome.was_interrupted:
            search.was_interrupted = True
            search.interrupted = Trial(0, rate, outcome.report, False, "interrupted")
            break
        show_trial(search.add(rate, outcome.report))


def _invalidity(report: Report) -> str:
    """Return why a trial is no evidence about the server, "" if it is.

    Agents that had time left and did not get their share of responses are evidence.
    """
    kinds = set(report.get("invalid_kinds") or ())
    if not report.get("invalid") or kinds == {verdict.SHARE}:
        return ""
    return str(report["invalid"][0])


def failure(threshold: Threshold, report: Report) -> str:
    """Return why a trial does not hold, "" if it does."""
    total = report["ok"] + report["failed"]
    if not report["ok"]:
        return "there was no correct response"
    if report["failed"] > FAILED_SHARE_MAX * total:
        return f"{report['failed']:,} of {total:,} failed ({verdict.failures_text(report)})"
    if not threshold.is_met(report):
        return threshold.value_text(report)
    if report.get("invalid"):
        return str(report["invalid"][0])
    share = report["achieved_share"]
    if share is not None and share < verdict.ACHIEVED_SHARE:
        return f"only {share:.1%} of the rate was achieved"
    if grown := verdict.backlog_growth(report):
        return f"requests queued up, by {grown:.1%} of the rate"
    return ""


def limit(search: Search) -> str:
    """Return what limited the rate when the search ended.

    It is "server", "generator", "connections" (all were busy, although the server responded as fast
    as at the lowest rate), "none" (no rate failed), or "invalid" if trials that were not valid, or
    could not be run, ended the search.
    """
    if search.ended:
        return "invalid"
    if search.unmeasured:
        kinds = set(search.unmeasured.report.get("invalid_kinds") or ())
        return "generator" if kinds <= {verdict.PROCESSOR, verdict.SHARE} and kinds else "invalid"
    if search.failed is None:
        return "none"
    report = search.failed.report
    if not report["ok"]:  # no time of the generator makes wrong responses right
        return "generator" if verdict.lacks_connections(report) else "server"
    lag_us = (report["schedule_lag_us"] or {}).get("p99") or 0.0
    lag_max_us = verdict.LAG_US
    if search.threshold.is_latency:
        lag_max_us = LAG_SHARE * search.threshold.limit
    is_busy = verdict.is_generator_bound(report, search.is_sleepless)
    is_starved = verdict.has_no_time(report, search.is_sleepless)
    is_late = lag_us > lag_max_us
    if is_busy or is_starved or is_late or verdict.lacks_connections(report):
        return "generator"
    return "connections" if _lacks_only_connections(search, report) else "server"


def _lacks_only_connections(search: Search, report: Report) -> bool:
    """Return whether requests waited for connections, and not for the server."""
    if not report["ok"] or verdict.waited_share(report) < verdict.WAITED_SHARE:
        return False
    responded = [each for each in search.trials if each.report["ok"]]
    lowest = min(responded, key=lambda each: each.rate_per_s).report
    return _median_us(report) < SLOWER * _median_us(lowest)


def _median_us(report: Report) -> float:
    """Return the median latency from sending."""
    latency_us = report["uncorrected_latency_us"] or report["latency_us"]
    return float(latency_us["p50"])


def trial_text(trial: Trial, threshold: Threshold) -> str:
    """Format a trial in one line."""
    result = "holds" if trial.holds else f"fails: {trial.reason}"
    if trial.invalid:
        result = f"is not valid: {trial.invalid}"
    value = threshold.value_text(trial.report) if trial.holds else ""
    seconds = _seconds_held(trial.report, threshold)
    details = ", ".join(part for part in (value, seconds) if part)
    head = f"trial {trial.number}: {trial.rate_per_s:,.0f} requests/s {result}"
    return f"{head} ({details})" if details else head


def result_text(search: Search) -> list[str]:
    """Format the result, its certainty, and why the search ended."""
    held, failed = search.held, search.failed
    if held is None:
        last = search.unmeasured or failed or search.last_failure
        lowest = f"{last.rate_per_s:,.0f} requests/s: {last.reason}" if last else "no trial"
        first = f"no rate was found that meets {search.threshold.text}; the lowest tried, {lowest}"
        return [first, *_early_end(search)]
    lines = [f"{held.rate_per_s:,.0f} requests/s meet {search.threshold.text}", _sureness(search)]
    if early := _early_end(search):
        lines += early
    elif failed:
        sound = "the server's limit: the generator had time left and sent on time"
        limited_by = {
            "server": sound if failed.report["ok"] else "the server's: none of them was correct",
            "generator": "the generator's limit: the server may do more; see --threads, --cpus",
            "connections": "the limit of the connections: all were busy, and the server responded "
            "as fast as at the lowest rate; give more of them with -c",
        }[limit(search)]
        if verdict.lacks_connections(failed.report):
            limited_by = "the generator's limit: it could not open connections; see --source"
        rate = f"{failed.rate_per_s:,.0f} requests/s"
        lines.append(f"{rate} fail ({failed.reason}); this is {limited_by}")
    else:
        lines.append("no rate failed, so the limit is not known")
    return lines


def _early_end(search: Search) -> list[str]:
    """Describe what ended a search that says nothing about the server; nothing otherwise."""
    if search.ended:
        why = f"the next trial could not be run ({search.ended})"
        return [f"{why}; the server's limit is not known"]
    if search.unmeasured is None:
        return []
    what = {
        "generator": "this is the generator's limit: the server may do more; use more agents, each "
        "with processors of its own",
        "invalid": "the server's limit is not known",
    }[limit(search)]
    rate = f"{search.unmeasured.rate_per_s:,.0f} requests/s"
    times = f"no result of {INVALID_TRIALS_MAX} trials at {rate} is valid"
    return [f"{times} ({search.unmeasured.reason}); {what}"]


def as_data(search: Search) -> dict[str, Any]:
    """Return the search for JSON: the result, its certainty, and every trial."""
    return {
        "condition": search.threshold.text,
        "rate_per_s": search.held.rate_per_s if search.held else None,
        "failed_rate_per_s": search.failed.rate_per_s if search.failed else None,
        "held_trials": _times_held(search)[0],
        "trials_at_rate": _times_held(search)[1],
        "is_confirmed": search.is_confirmed,
        "limit": limit(search),
        "ended": search.ended or None,
        "trials": [
            {
                "rate_per_s": each.rate_per_s,
                "holds": each.holds,
                "is_valid": not each.invalid,
                "reason": each.reason,
                "value": search.threshold.finite_value(each.report),
            }
            for each in search.trials
        ],
    }


def _sureness(search: Search) -> str:
    """Describe how often the resulting rate was tried, and how near the next failed one is."""
    times = "it held in {} of {} trials at this rate".format(*_times_held(search))
    if search.held and search.failed:
        gap = search.failed.rate_per_s / search.held.rate_per_s - 1
        times += f"; the limit is at most {gap:.1%} above"
    return times if search.is_confirmed else f"{times}; the search ended before it was confirmed"


def _times_held(search: Search) -> tuple[int, int]:
    """Return how many trials at the resulting rate held, and how many there were."""
    trials = search.at(search.held.rate_per_s) if search.held else []
    return sum(trial.holds for trial in trials), len(trials)


def _seconds_held(report: Report, threshold: Threshold) -> str:
    """Describe in how many whole seconds a p50, p99 or max held; "" for other conditions."""
    key = {"p50": "p50_us", "p99": "p99_us", "max": "max_us"}.get(threshold.metric)
    whole = report["per_second"][: int(report["seconds"])]
    if key is None or not whole:
        return ""
    values = (threshold.latency_among(each[key], each["ok"], each["failed"]) for each in whole)
    held = sum(threshold.compare(each) for each in values)
    return f"in {held} of {len(whole)} seconds"


def _rounded(rate_per_s: float) -> float:
    """Round to three digits, which are easy to read and type."""
    return float(round(rate_per_s, 3 - len(str(int(rate_per_s)))))
