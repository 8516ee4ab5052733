"""What the contestants of a study must reach, and whether they do: `Judgement` for each row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Literal, TypeAlias

from bolide.lab.record.schema import Requirement, Trial
from bolide.lab.report.summary import Figure, Result
from bolide.lab.stats.interval import Interval, median_interval
from bolide.lab.stats.ratio import by_round, by_start

BUSY_SHARE = 0.95
Outcome: TypeAlias = Literal["reached", "below", "undecided", "shown", "not measured"]
PER_CPU = "per second of the server's processor time"


@dataclass(frozen=True)
class Judgement:
    """A requirement with what was measured."""

    requirement: Requirement
    own: Figure | None
    other: Figure | None
    value: Interval | None
    """The ratio, or the bytes; None if it was not measured."""
    remark: str
    bound: Literal["", "most", "least"] = ""
    """Whether the ratio is at most or at least this, because the generator was one's limit."""

    @property
    def outcome(self) -> Outcome:
        """Whether it is reached."""
        wanted = self.requirement
        if self.value is None:
            return "not measured"
        if wanted.at_least is not None:
            is_reached = self.value.middle >= wanted.at_least
            if self.bound == ("most" if is_reached else "least"):
                return "undecided"
            return "reached" if is_reached else "below"
        if wanted.at_most is not None:
            return "reached" if self.value.middle <= wanted.at_most else "below"
        return "shown"


def judged(result: Result) -> list[Judgement]:
    """Return the judgement of each requirement of a study."""
    return [_judgement(result, each) for each in result.study.requirements]


def below(result: Result) -> list[str]:
    """Return the rows that are below their bar, each with what it is compared with."""
    found = [each.requirement for each in judged(result) if each.outcome == "below"]
    return [f"{each.title}, {each.against}" if each.against else each.title for each in found]


def _judgement(result: Result, wanted: Requirement) -> Judgement:
    own = result.figures.get((wanted.workload, wanted.contestant))
    other = result.figures.get((wanted.workload, wanted.against)) if wanted.against else None
    if own is None or not own.valid:
        return Judgement(wanted, own, other, None, _reason(wanted.contestant, own))
    if not wanted.against:
        return Judgement(wanted, own, None, own.over_rounds(_bytes_of(own, wanted)), "")
    if other is None or not other.valid:
        return Judgement(wanted, own, other, None, _reason(wanted.against, other))
    ratio, remark, bound = _ratio_of(wanted, own, other)
    ratios = by_round(_by_turn(own, ratio), _by_turn(other, ratio))
    starts = by_start(ratios, own.turns)
    return Judgement(wanted, own, other, median_interval([*starts.values()]), remark, bound)


def _ratio_of(
    wanted: Requirement, own: Figure, other: Figure
) -> tuple[Callable[[Trial], float], str, Literal["", "most", "least"]]:
    """Return what is compared, a remark on it, and whether the ratio is a bound."""
    if wanted.measure == "own time":
        return _own_us, "", ""
    if wanted.measure == "cpu":
        return _per_cpu, PER_CPU, ""
    limited = [each for each in (own, other) if _is_generator_the_limit(each)]
    rate, per_cpu = (
        (_bytes_rate, _bytes_per_cpu) if wanted.measure == "bytes" else (_rate, _per_cpu)
    )
    if len(limited) == 2:
        return per_cpu, f"{PER_CPU}: the generator was the limit of both", ""
    if limited:
        bound: Literal["most", "least"] = "least" if limited[0] is own else "most"
        name = limited[0].contestant.name
        return rate, f"at {bound} this: the generator was the limit of {name}", bound
    return rate, "", ""


def _rate(trial: Trial) -> float:
    return trial.requests_per_s or 0.0


def _own_us(trial: Trial) -> float:
    return trial.own_us or 0.0


def _per_cpu(trial: Trial) -> float:
    """Return the requests per second of the server's processor time, with those of the warm-up."""
    requests = trial.requests_sent or trial.ok or 0
    return requests / trial.server.cpu_s if trial.server.cpu_s else 0.0


def _bytes_rate(trial: Trial) -> float:
    return trial.bytes_per_s or 0.0


def _bytes_per_cpu(trial: Trial) -> float:
    """Return the bytes per second of the server's processor time, with those of the warm-up."""
    return (trial.run_bytes or 0) / trial.server.cpu_s if trial.server.cpu_s else 0.0


def _by_turn(figure: Figure, value: Callable[[Trial], float]) -> Mapping[int, float]:
    """Return a value of each turn; one too short to have it is left out."""
    found = {each.round: value(each) for each in figure.valid}
    return {number: each for number, each in found.items() if each > 0}


def _bytes_of(figure: Figure, wanted: Requirement) -> Callable[[Trial], float | None]:
    """Return what reads the memory that a row is about, None if it is unknown."""
    if wanted.measure == "memory at start":
        return lambda trial: trial.server.rss_bytes_process

    def each(trial: Trial) -> float | None:
        most, start = trial.server.rss_bytes_max, trial.server.rss_bytes_start
        if most is None or start is None:
            return None
        return (most - start) / figure.workload.connections

    return each


def _is_generator_the_limit(figure: Figure) -> bool:
    generator = median(each.generator.cpu_share or 0.0 for each in figure.valid)
    server = median(each.server.cpu_share or 0.0 for each in figure.valid)
    return generator > BUSY_SHARE and server < BUSY_SHARE


def _reason(name: str, figure: Figure | None) -> str:
    if figure is None:
        return f"{name} did not run"
    invalid = [each.evidence[0] for each in figure.trials if not each.is_valid and each.evidence]
    return f"{name}: {(invalid or figure.reasons or [figure.verdict])[0]}"
