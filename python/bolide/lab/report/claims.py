"""Whether a document's claims hold here, judged from the figures of a race, and in one sentence.

A claim bounds a rate, a ratio of rates, or the share of failed requests. It holds if all of the
interval is within the bounds, and does not if all of it is outside; otherwise it is undecided.
In a round that the generator limited, the true rate may be any higher one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from math import inf
from typing import Literal, TypeAlias

from bolide.lab.record import service
from bolide.lab.record.schema import Claim
from bolide.lab.report import quantity
from bolide.lab.report.summary import Figure, Result
from bolide.lab.stats.interval import Interval, depth, median_interval

Outcome: TypeAlias = Literal["holds", "does not hold", "undecided", "not judged"]
PHRASES: dict[Outcome, tuple[str, str]] = {
    "holds": ("holds", "hold"),
    "does not hold": ("does not hold", "do not hold"),
    "undecided": ("is undecided", "are undecided"),
    "not judged": ("could not be judged", "could not be judged"),
}
"""What is said of one claim, and of several."""
ROUNDS_MIN = 3
"""Fewest rounds that decide a claim: the range of two has the true median in every second race."""
BUSY = "; the machine was busy"
BREAKDOWNS = ("died", "hang")
"""Classes of failures of a server under its load; without a load, there is nothing to judge."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim, whether it holds, and what shows that."""

    text: str
    outcome: Outcome
    evidence: str
    workload: str = ""
    """The workload that it was judged by, "" if none."""
    contestant: str = ""
    """One of its contestants."""


def verdicts(result: Result) -> list[Verdict]:
    """Judge the claims of a study's document, in its order."""
    return [_judge(result, each) for each in result.study.claims]


def sentence(found: Sequence[Verdict]) -> str:
    """Return how many claims hold, and which; "" if there are none."""
    if not found:
        return ""
    if len(found) == 1:
        return f"The document's only claim {PHRASES[found[0].outcome][0]} here: {found[0].text}."
    if all(each.outcome == "not judged" for each in found):
        return f"None of the document's {len(found)} claims could be judged here."
    by = {name: [each.text for each in found if each.outcome == name] for name in PHRASES}
    held = by.pop("holds")
    verb = PHRASES["holds"][len(held) > 1]
    head = f"{len(held) or 'None'} of the document's {len(found)} claims {verb} here"
    parts = [f"{head}: {'; '.join(held)}" if held else head]
    for name, texts in by.items():
        if texts:
            what = PHRASES[name][len(texts) > 1]
            parts.append(f"{len(texts)} {what}: {'; '.join(texts)}")
    return ". ".join(parts) + "."


def _judge(result: Result, claim: Claim) -> Verdict:
    """Judge a claim by the first of its workloads that has all of its figures.

    Another one that decides otherwise is named.
    """
    loads = [*zip_longest(claim.workloads, claim.than_workloads, fillvalue="")]
    found = _judged_by(result, claim, loads)
    rest = [pair[0] for pair in loads].index(found.workload) + 1 if found.workload else len(loads)
    others = [_judged_by(result, claim, [pair]) for pair in loads[rest:]]
    opposite = {"holds": "does not hold", "does not hold": "holds"}.get(found.outcome)
    said = [
        f"; it {each.outcome} by {each.evidence}" for each in others if each.outcome == opposite
    ]
    return replace(found, evidence=found.evidence + "".join(said))


def _judged_by(result: Result, claim: Claim, loads: Sequence[tuple[str, str]]) -> Verdict:
    reasons: list[str] = []
    for workload, other in loads:
        figures = [result.figures.get((workload, name)) for name in claim.contestants]
        reasons_against = (_refutation(claim, each) for each in figures if not other)
        if reason := next(filter(None, reasons_against), ""):
            return _enough(
                _verdict(claim, "does not hold", f"{reason} ({workload})", workload),
                min(each.rounds for each in _known(figures)),
            )
        against = [result.figures.get((other or workload, name)) for name in claim.than]
        if other and not claim.than:
            against = [result.figures.get((other, name)) for name in claim.contestants]
        lacking = [_lack(claim, each) for each in (*figures, *against)]
        if any(lacking):
            reasons += [f"{workload}: {each}" for each in lacking if each][:1]
            continue
        found = _compared(claim, workload, _known(figures), _known(against))
        if found.outcome != "not judged":
            return found
        reasons.append(found.evidence)
    return _verdict(claim, "not judged", "; ".join(dict.fromkeys(reasons)))


def _refutation(claim: Claim, figure: Figure | None) -> str:
    """Return why a server refutes a claim whatever its figures are; "" if it does not.

    One that ended or hung under its load had errors, which nobody counted. One that served few
    connections has no rate. Comparisons are not refuted by one of their sides.
    """
    if figure is None:
        return ""
    if claim.figure == "errors":
        return _breakdown(figure) if claim.at_most is not None else ""
    if figure.rate or claim.than:
        return ""
    starved = (service.starved_in(each, figure.workload) for each in figure.trials)
    return next(filter(None, starved), figure.refuted)


def _breakdown(figure: Figure) -> str:
    """Return in how many trials a server ended or hung, and how first; "" if in none."""
    found = [each.failure for each in figure.trials if each.failure]
    found = [each for each in found if each.class_ in BREAKDOWNS]
    if not found:
        return ""
    said = f"{found[0].class_}: {found[0].message}"
    number = f"{len(found)} of {len(figure.trials)} trials"
    return f"{figure.contestant.title} ended or hung in {number}, first {said}"


def _lack(claim: Claim, figure: Figure | None) -> str:
    """Return why a figure cannot be compared; "" if it can."""
    if figure is None:
        return "not run"
    if claim.figure == "errors":
        if figure.failed_share is None:
            return f"{figure.contestant.title}: unknown"
        if claim.at_most is None or figure.valid or figure.failed:
            return ""
    return "" if figure.rate else f"{figure.contestant.title}: {figure.reason}"


def _known(figures: Iterable[Figure | None]) -> list[Figure]:
    return [each for each in figures if each is not None]


def _compared(claim: Claim, workload: str, figures: list[Figure], against: list[Figure]) -> Verdict:
    """Judge a claim that has all of its figures: every one of them has to be within the bounds."""
    found = [*_values(claim, figures, against)]
    if not found:
        return _verdict(claim, "not judged", f"{workload}: no round has all of the figures")
    outcomes = [_outcome(claim, value) for value, _ in found]
    worst: tuple[Outcome, ...] = ("does not hold", "undecided", "holds")
    outcome = next(each for each in worst if each in outcomes)
    doubt = _doubt((*figures, *against)) if claim.figure == "rate" else ""
    if doubt == BUSY:
        outcome = "undecided"
    said = ", ".join(text for _, text in found)
    verdict = _verdict(claim, outcome, f"{said} ({workload}{doubt})", workload)
    return _enough(verdict, min(value.count for value, _ in found))


def _doubt(figures: Iterable[Figure]) -> str:
    """Return what disturbed or limited the figures, for the end of the evidence; "" if nothing."""
    figures = [*figures]
    if any(each.verdict == "noisy" for each in figures):
        return BUSY
    limited = [each for each in figures if each.limited_rounds]
    if not limited:
        return ""
    every = all(len(each.limited_rounds) == len(each.by_round) for each in limited)
    return f"; the generator was the limit{'' if every else ' in some rounds'}"


def _enough(found: Verdict, rounds: int) -> Verdict:
    """Return a verdict, or that too few rounds decide nothing."""
    if rounds >= ROUNDS_MIN or found.outcome == "not judged":
        return found
    few = f"; only {rounds} round{'s' * (rounds != 1)}, {ROUNDS_MIN} are needed"
    return replace(found, outcome="undecided", evidence=f"{found.evidence}{few}")


def _values(
    claim: Claim, figures: list[Figure], against: list[Figure]
) -> Iterator[tuple[Interval, str]]:
    """Yield each value that the claim bounds, and its text."""
    is_own = bool(claim.than_workloads) and not claim.than
    for place, figure in enumerate(figures):
        title = figure.contestant.title
        if claim.figure == "errors":
            share = figure.failed_share or 0.0
            failed = quantity.count(figure.failed)
            yield Interval(share, None, None, figure.rounds), f"{title}: {failed} failed requests"
        elif not against and figure.rate:
            rate = figure.rate
            text = f"{title}: {quantity.count(rate.middle)} requests/s{_ends(rate)}"
            yield _known_ends(rate, figure.by_round, figure), text
        for other in [against[place]] if is_own else against:
            ratios = figure.ratios_to(other)
            if ratio := median_interval([*ratios.values()]):
                beside = other.workload.name if is_own else other.contestant.title
                times = quantity.times(ratio.middle)
                text = f"{title}: {times} of {beside}{_ends(ratio, is_ratio=True)}"
                yield _known_ends(ratio, ratios, figure, other), text


def _known_ends(
    found: Interval, values: Mapping[int, float], figure: Figure, other: Figure | None = None
) -> Interval:
    """Return the interval of a rate, or of a ratio to another figure, whose values are by round.

    In a round that the generator limited, a server is at least as fast as measured, so a ratio to
    it is at most that. Ends that depend on such a round are infinite or 0.
    """
    other_limited = other.limited_rounds if other else set()
    least = sorted(0.0 if number in other_limited else value for number, value in values.items())
    limited = figure.limited_rounds
    most = sorted(inf if number in limited else value for number, value in values.items())
    rank = depth(len(values))
    return replace(found, low=least[rank - 1], high=most[-rank])


def _ends(found: Interval, *, is_ratio: bool = False) -> str:
    """Return the ends of an interval, and what they are; "" without any."""
    if found.low is None or found.high is None:
        return ""
    form = quantity.times if is_ratio else quantity.count
    return f", {found.label} {form(found.low)} to {form(found.high)}"


def _outcome(claim: Claim, value: Interval) -> Outcome:
    low = value.middle if value.low is None else value.low
    high = value.middle if value.high is None else value.high
    least = -inf if claim.at_least is None else claim.at_least
    most = inf if claim.at_most is None else claim.at_most
    if least <= low and high <= most:
        return "holds"
    return "does not hold" if high < least or low > most else "undecided"


def _verdict(claim: Claim, outcome: Outcome, evidence: str, workload: str = "") -> Verdict:
    return Verdict(claim.text, outcome, evidence, workload, claim.contestants[0])
