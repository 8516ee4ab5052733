"""The figures of a race: its records by study, workload and contestant.

It has medians over rounds, ratios of the same rounds, and merged histograms. It writes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median

import msgspec

from bolide.lab.record import service
from bolide.lab.record.schema import (
    Contestant,
    GeneratorUse,
    Machine,
    Published,
    Record,
    Served,
    ServerUse,
    Study,
    Trial,
    Workload,
)
from bolide.lab.record.validity import valid_of
from bolide.lab.stats import histogram, noise
from bolide.lab.stats.interval import ROUNDS_MIN, Interval, median_interval
from bolide.lab.stats.ratio import by_round, by_start, deviation, start_of

NOISY_SHARE_MAX = 0.2
"""Share of noisy trials above which the report begins with a warning."""
ACHIEVED_SHARE_MIN = 0.99
"""A server that achieved less of an offered rate did not serve it."""
CHECKING_TOOL = "bolide"
"""The tool that counts the responses of each connection, and compares each with the right one."""
RANKS = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999}


@dataclass(frozen=True)
class Figure:
    """One contestant at one workload, over all rounds."""

    workload: Workload
    contestant: Contestant
    trials: Sequence[Trial]
    turns: int = 1
    """Trials of each round, in which the server is started once; `Trial.round` counts them."""
    refuted: str = ""
    """Why this tool's figure does not count: what `bolide load` found in the same load."""

    @cached_property
    def valid(self) -> list[Trial]:
        """The trials with figures; none if at least half of the rounds have none."""
        return [] if self.refuted else valid_of(self.trials, self.workload)

    @cached_property
    def by_turn(self) -> dict[int, float]:
        """Correct responses per second of each trial; without turns, these are the rounds."""
        return {each.round: each.requests_per_s for each in self.valid if each.requests_per_s}

    @cached_property
    def by_round(self) -> dict[int, float]:
        """Correct responses per second by round: the median of the round's turns."""
        return by_start(self.by_turn, self.turns)

    @cached_property
    def rounds(self) -> int:
        """Number of rounds that were run."""
        return len({start_of(each.round, self.turns) for each in self.trials})

    @cached_property
    def limited_rounds(self) -> set[int]:
        """The rounds in which the generator was the limit, of a turn at least."""
        return {
            start_of(each.round, self.turns)
            for each in self.valid
            if each.verdict == "generator-bound"
        }

    def ratios_to(self, other: Figure) -> dict[int, float]:
        """Return the ratios to another figure by round: the medians of those of the same turns."""
        return by_start(by_round(self.by_turn, other.by_turn), self.turns)

    def over_rounds(self, value: Callable[[Trial], float | None]) -> Interval | None:
        """Return a value of the valid trials: the median over rounds, of the medians of turns."""
        known = {each.round: value(each) for each in self.valid}
        found = {turn: each for turn, each in known.items() if each is not None}
        return median_interval([*by_start(found, self.turns).values()])

    @cached_property
    def rate(self) -> Interval | None:
        """Correct responses per second: the median over rounds."""
        return median_interval(list(self.by_round.values()))

    @cached_property
    def latency_us(self) -> dict[str, float | None]:
        """Percentiles over the responses of all rounds, since percentiles cannot be averaged.

        If the tool has no histograms to merge, they are those of the median round. A percentile
        that the tool does not report is not derived from histograms, whose rows are too wide.
        """
        valid = [each for each in self.valid if each.latency_us]
        if not valid:
            return {}
        middle = sorted(valid, key=lambda each: each.requests_per_s or 0)[(len(valid) - 1) // 2]
        found = dict(middle.latency_us or {})
        maxima = [(each.latency_us or {}).get("max") for each in valid]
        found["max"] = max((value for value in maxima if value), default=None)
        if len(valid) > 1 and all(each.histogram for each in valid):
            rows = histogram.merge(each.histogram or [] for each in valid)
            for name in (each for each in RANKS if found.get(each) is not None):
                value = histogram.percentile(rows, RANKS[name])
                # The middle of the last bucket may be above the maximum.
                found[name] = value and min(value, found["max"] or value)
        return found

    @cached_property
    def of_served_rounds(self) -> Figure:
        """The rounds of an open loop in which the server kept up with the offered rate.

        Latencies of other rounds are those of a queue that grew until the end.
        """
        served = [each for each in self.trials if _is_served(each)]
        return replace(self, trials=served)

    @cached_property
    def offered_per_s(self) -> float | None:
        """Requests due per second in an open loop, which is the same in all rounds."""
        return _median(each.offered_per_s for each in self.trials)

    @cached_property
    def served(self) -> Served | None:
        """Responses by connection in the least even round; None if the tool does not count."""
        found = [each.served for each in self.valid or self.trials if each.served is not None]
        counted = [service.with_unopened(self.workload, each) for each in found]
        return min(counted, key=lambda each: (-each.starved, each.fairness or 0), default=None)

    @cached_property
    def in_flight(self) -> float | None:
        """Connections with a request in flight, by Little's law: the median over rounds."""
        found = self.valid or self.trials
        return _median(service.in_flight_of(each, self.workload) for each in found)

    @cached_property
    def contradiction(self) -> str:
        """How rate and latency contradict each other; "" if they do not, or without a rate."""
        return self.in_flight_doubt if self.valid else ""

    @cached_property
    def in_flight_doubt(self) -> str:
        """The same, also without a rate."""
        responses = _median(service.responses_of(each) for each in self.valid or self.trials)
        return service.contradiction(self.workload, self.in_flight, int(responses or 0))

    @cached_property
    def energy_uj_per_request(self) -> Interval | None:
        """Energy of the whole machine's processors per correct response, in microjoules."""
        return self.over_rounds(
            lambda each: each.energy_j / each.ok * 1e6 if each.energy_j and each.ok else None
        )

    @cached_property
    def cpu_us_per_request(self) -> Interval | None:
        """Processor time of the server's process tree per correct response."""
        return self.over_rounds(self._cpu_us_per_request)

    def _cpu_us_per_request(self, found: Trial) -> float | None:
        cpu_s = self._cpu_s(found)
        return cpu_s / found.ok * 1e6 if cpu_s and found.ok else None

    def _cpu_s(self, found: Trial) -> float | None:
        """Return the processor time of the server while its responses were counted.

        A number of requests is counted as a whole; any other load begins before, and ends after.
        """
        if self.workload.requests_total is not None:
            return found.server.cpu_s
        share, seconds = found.server.cpu_share, found.seconds
        return share * seconds if share and seconds else None

    @cached_property
    def memory_bytes(self) -> int | None:
        """Peak memory of the process tree: shared pages counted once (PSS) if known."""
        used = [each.server.pss_bytes_max or each.server.rss_bytes_max for each in self.valid]
        return max((each for each in used if each), default=None)

    @cached_property
    def server_cpu(self) -> float | None:
        """Processors that the server kept busy: the median over rounds."""
        return _median(each.server.cpu_share for each in self.valid)

    @cached_property
    def switches_per_request(self) -> float | None:
        """Context switches of the server's process tree per correct response."""
        return _median(self._switches_of(each.server, each) for each in self.valid)

    def _switches_of(self, use: ServerUse | GeneratorUse, found: Trial) -> float | None:
        """Return the context switches while responses were counted, per correct response.

        As with the processor time, a load that is not a number of requests begins before that.
        """
        counted = use.context_switches
        if counted is None or not found.ok:
            return None
        share = use.cpu_share if isinstance(use, ServerUse) else use.processors
        if self.workload.requests_total is None and share and found.seconds and use.cpu_s:
            return counted * min(1.0, share * found.seconds / use.cpu_s) / found.ok
        return counted / found.ok

    @cached_property
    def generator_cpu(self) -> float | None:
        """Share of its time in which the generator's busiest thread ran: the median over rounds."""
        return _median(each.generator.cpu_share for each in self.valid)

    @cached_property
    def generator_memory_bytes(self) -> int | None:
        """Peak memory of the generator in any round (RSS)."""
        used = [each.generator.rss_bytes_max for each in self.valid]
        return max((each for each in used if each), default=None)

    @cached_property
    def generator_switches_per_request(self) -> float | None:
        """Context switches of the generator per correct response."""
        return _median(self._switches_of(each.generator, each) for each in self.valid)

    @cached_property
    def overflows(self) -> int:
        """How often the server's accept queue was full: the median over rounds."""
        return int(_median(each.kernel.listen_overflows or 0 for each in self.valid) or 0)

    @cached_property
    def errors(self) -> Counter[str]:
        """Failed requests by class, of all rounds."""
        return sum((Counter(each.errors) for each in self.trials), Counter())

    @cached_property
    def failed(self) -> int | None:
        """Failed requests of all rounds; None if unknown."""
        known = [each.failed for each in self.trials if each.failed is not None]
        return sum(known) if known else None

    @cached_property
    def failed_share(self) -> float | None:
        """Failed requests divided by all that ended."""
        total = sum((each.ok or 0) + (each.failed or 0) for each in self.trials)
        return None if self.failed is None or not total else self.failed / total

    @cached_property
    def verdict(self) -> str:
        """What limited most valid rounds; without any, "failed" or what invalidated most."""
        if not self.valid and self.absence == "failed":
            return "failed"
        if self.valid:
            return Counter(each.verdict for each in self.valid).most_common(1)[0][0]
        if self.refuted or any(service.starved_in(t, self.workload) for t in self.trials):
            return "errors"
        return Counter(each.verdict for each in self.trials).most_common(1)[0][0]

    @cached_property
    def is_saturated(self) -> bool:
        """Whether server or generator had no processor time left in a closed loop.

        Then a latency is mostly that of the queue. Noisy rounds do not say what the limit was.
        """
        if service.is_open_loop(self.workload):
            return False
        found = Counter(each.verdict for each in self.valid)
        return found["server-bound"] + found["generator-bound"] > found["neither"]

    @cached_property
    def absence(self) -> str:
        """The text instead of a rate: "failed" if a trial failed, otherwise "no figure"."""
        return "failed" if any(each.failure for each in self.trials) else "no figure"

    @cached_property
    def is_noisy(self) -> bool:
        """Whether other work took processor time in a round of this figure."""
        return any(each.verdict == "noisy" for each in self.valid)

    @cached_property
    def is_mostly_noisy(self) -> bool:
        """Whether that was so in most rounds: then the figure decides nothing."""
        return sum(each.verdict == "noisy" for each in self.valid) > len(self.valid) / 2

    @cached_property
    def marks(self) -> list[str]:
        """What to know before relying on the figure."""
        found = []
        if noise.is_unstable(list(self.by_round.values())):
            found.append("unstable")
        if self.is_noisy:
            found.append("noisy")
        if self.contradiction:
            found.append("latency contradicts rate")
        lost = len(self.trials) - len(self.valid)
        if lost and self.valid:
            what = "rounds" if self.turns == 1 else "turns"
            found.append(f"{lost} of {len(self.trials)} {what} failed")
        return found

    @cached_property
    def reasons(self) -> list[str]:
        """Why trials failed, and the evidence of verdicts, without duplicates."""
        failures = [f"{t.failure.class_}: {t.failure.message}" for t in self.trials if t.failure]
        starved = [service.starved_in(each, self.workload) for each in self.trials]
        evidence = [text for each in self.trials for text in each.evidence]
        found = [*failures, *starved, self.refuted, *evidence, self.contradiction]
        return list(dict.fromkeys(each for each in found if each))

    @property
    def reason(self) -> str:
        """The first of the reasons, for a figure without a rate."""
        return self.reasons[0] if self.reasons else "no correct response"


def _is_served(found: Trial) -> bool:
    return (found.requests_per_s or 0) >= ACHIEVED_SHARE_MIN * (found.offered_per_s or 0)


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def tool_title(name: str) -> str:
    """Return a tool's usual name."""
    return "bolide load" if name == "bolide" else name


@dataclass(frozen=True)
class Group:
    """Workloads that differ only in the number of connections, ascending."""

    workloads: Sequence[Workload]

    @property
    def title(self) -> str:
        """A short description."""
        first = self.workloads[0]
        words = [tool_title(first.tool)]
        levels = [each.connections for each in self.workloads]
        several = f"{levels[0]:,}–{levels[-1]:,}" if len(levels) > 1 else f"{levels[0]:,}"
        words.append(f"{several} connections")
        if first.pipeline_depth > 1:
            words.append(f"{first.pipeline_depth} deep")
        words += _protocols(first)
        if not first.is_persistent:
            words.append("a connection per request")
        words += [f"{name.rpartition('.')[2]} {value}" for name, value in first.sysctls]
        if first.threads > 1:
            words.append(f"{first.threads} threads")
        if first.rate_per_s is not None:
            words.append(f"{first.rate_per_s:,.0f} requests/s offered")
        if first.target != "/":
            words.append(first.target)
        if first.app:
            words.append(first.app.partition(":")[2])
        if first.file_bytes is not None:
            words.append(f"{first.file_bytes:,} bytes in each response")
        if first.is_timed:
            words.append("the application's time measured")
        return " · ".join(words)


def _protocols(load: Workload) -> list[str]:
    """Return what a load uses besides HTTP/1."""
    found = [f"HTTP/2, {load.streams} streams each"] if load.http_version == "2" else []
    if load.messages:
        size = f" of {load.message_bytes:,} bytes" if load.message_bytes is not None else ""
        found.append(f"WebSocket, {load.messages}{size}")
    if load.is_compressed:
        found.append("permessage-deflate")
    if load.tls:
        found.append("TLS" if load.is_persistent else f"{load.tls} TLS handshakes")
    return found


@dataclass
class Result:
    """A study and its figures."""

    study: Study
    figures: dict[tuple[str, str], Figure] = field(default_factory=dict)
    """By workload and contestant, without the open loop."""
    open_loop: dict[tuple[str, str], Figure] = field(default_factory=dict)
    """The same of the open loop, whose rates were offered: its results are latencies."""

    @property
    def contestants(self) -> list[Contestant]:
        """The contestants that were measured, in the order of the records."""
        return list({f.contestant.name: f.contestant for f in self.figures.values()}.values())

    @property
    def groups(self) -> list[Group]:
        """The workloads that were run, grouped if they differ only in connections."""
        found: dict[Workload, list[Workload]] = {}
        measured = {name for name, _ in self.figures}
        for each in self.study.workloads:
            if each.name in measured:
                kind = each.name.replace(str(each.connections), "")
                alike = msgspec.structs.replace(
                    each, name=kind, connections=0, is_quick=False, contestants=()
                )
                found.setdefault(alike, []).append(each)
        return [Group(sorted(each, key=lambda w: w.connections)) for each in found.values()]

    def of(self, workload: str) -> list[Figure]:
        """Return a workload's figures, the highest rate first, failures last."""
        found = [figure for (name, _), figure in self.figures.items() if name == workload]
        return sorted(found, key=lambda each: -(each.rate.middle if each.rate else -1))

    def ceiling(self, workload: str) -> Figure | None:
        """Return the figure of the ceiling, if it was measured."""
        for each in self.of(workload):
            if each.contestant.role == "ceiling" and each.rate:
                return each
        return None

    def of_ceiling(self, figure: Figure) -> Interval | None:
        """Return the ratio to the ceiling: the median of those of the same rounds.

        The terminal, the page, Markdown and comparisons all show this one.
        """
        return median_interval([*self.of_ceiling_by_round(figure).values()])

    def of_ceiling_by_round(self, figure: Figure) -> dict[int, float]:
        """Return the ratios to the ceiling; {} without a ceiling, and for the ceiling itself."""
        ceiling = self.ceiling(figure.workload.name)
        if ceiling is None or ceiling is figure:
            return {}
        return figure.ratios_to(ceiling)

    @property
    def copies(self) -> list[Figure]:
        """The figures of contestants that were run a second time (`--aa`)."""
        return [each for each in self.figures.values() if each.contestant.copy_of]

    def copy_ratio(self, figure: Figure) -> Interval | None:
        """Return the ratio of a copy to what it is a copy of, round by round."""
        original = self.figures.get((figure.workload.name, figure.contestant.copy_of))
        return median_interval([*figure.ratios_to(original).values()]) if original else None

    def published(self, workload: str, contestant: str) -> Published | None:
        """Return the document's figure for a workload of any tool, if it has one."""
        for each in self.study.published:
            if (each.workload, each.contestant) == (workload, contestant):
                return each
        return None


@dataclass
class Race:
    """All results in a folder."""

    machine: Machine | None
    """As it was when the race was continued last."""
    contestants: list[Contestant]
    results: list[Result]
    sessions: Sequence[str] = ()
    """When the race was started, and each time it was continued."""

    @property
    def measured_at(self) -> str:
        """When the race was run, also in several sessions; "" if that is not recorded."""
        times = [f"{each.replace('T', ' ')[:16]} UTC" for each in self.sessions]
        if len(times) <= 1:
            return "".join(times)
        return f"started {len(times)} times, from {times[0]} to {times[-1]}"

    @property
    def trials(self) -> list[Trial]:
        """All trials, with those of the open loop."""
        figures = (each for r in self.results for each in (r.figures, r.open_loop))
        return [trial for each in figures for found in each.values() for trial in found.trials]

    @property
    def warning(self) -> str:
        """What to know about the whole race before reading any figure of it; "" if nothing."""
        return " ".join(each for each in (self._noise, self._unevenness) if each)

    @property
    def _noise(self) -> str:
        """What to know about other work on the machine; "" if nothing."""
        trials = self.trials
        noisy = sum(each.verdict == "noisy" for each in trials)
        if noisy <= NOISY_SHARE_MAX * len(trials):
            return ""
        said = f"{noisy:,} of {len(trials):,} trials were noisy: other work took processor time."
        if noisy > len(trials) / 2:
            return f"{said} This race decides nothing."
        return f"{said} The rows that are marked noisy are not reliable."

    @property
    def _unevenness(self) -> str:
        """What the ceiling, which always does the same, says about the machine; "" if nothing."""
        loads = [(result, each.name) for result in self.results for each in result.study.workloads]
        ceilings = [found for result, name in loads if (found := result.ceiling(name))]
        uneven = sum(noise.is_unstable([*each.by_round.values()]) for each in ceilings)
        if uneven <= len(ceilings) / 2:
            return ""
        return (
            f"The machine was uneven: the ceiling, which always does the same, differs between"
            f" rounds by more than 5 % (standard deviation) in {uneven} of {len(ceilings)} loads."
            " Ratios of the same rounds differ less than rates."
        )

    @property
    def measured(self) -> list[Contestant]:
        """Contestants that were measured in any study, in the order of the records."""
        names = {contestant.name for result in self.results for contestant in result.contestants}
        return [each for each in self.contestants if each.name in names]

    @property
    def floor(self) -> float | None:
        """By how much equal servers differed at most, as a share; None if none was run twice."""
        ratios = (result.copy_ratio(figure) for result in self.results for figure in result.copies)
        return deviation(each.middle for each in ratios if each)

    @property
    def floor_doubt(self) -> str:
        """Why the floor says little; "" if it does not."""
        copies = [figure for result in self.results for figure in result.copies]
        rounds = min((each.rounds for each in copies), default=0)
        noisy = sum(each.is_noisy for each in copies)
        found = [f"only {rounds} round{'s' * (rounds != 1)}"] if rounds < ROUNDS_MIN else []
        found += [f"{noisy} of {len(copies)} copies are noisy"] if noisy else []
        return ", ".join(found)

    @property
    def absent(self) -> list[Contestant]:
        """Contestants that were not measured, with the reason."""
        return [each for each in self.contestants if each.state != "ready"]


def gather(records: Iterable[Record]) -> Race:
    """Group the records; of duplicates, also of rounds, the last one applies."""
    machine: Machine | None = None
    sessions: list[str] = []
    contestants: dict[str, Contestant] = {}
    studies: dict[str, Study] = {}
    trials: dict[str, dict[tuple[str, str], dict[int, Trial]]] = {}
    for each in records:
        if isinstance(each, Machine):
            machine = each
            sessions.append(each.started_at)
        elif isinstance(each, Contestant):
            contestants[each.name] = each
        elif isinstance(each, Study):
            studies[each.name] = each
        else:
            key = (each.workload, each.contestant)
            trials.setdefault(each.study, {}).setdefault(key, {})[each.round] = each
    results = []
    for study in studies.values():
        every = _figures(study, contestants, trials.get(study.name, {}))
        closed = {key: each for key, each in every.items() if not each.workload.maximum}
        opened = {key: each for key, each in every.items() if each.workload.maximum}
        results.append(Result(study, closed, opened))
    measured = [each for each in results if each.figures]
    return Race(machine, list(contestants.values()), measured, sessions)


def _figures(
    study: Study,
    contestants: dict[str, Contestant],
    trials: dict[tuple[str, str], dict[int, Trial]],
) -> dict[tuple[str, str], Figure]:
    workloads = {each.name: each for each in study.workloads}
    figures = {
        (workload, name): Figure(
            workloads[workload], contestants[name], list(found.values()), study.turns
        )
        for (workload, name), found in trials.items()
        if workload in workloads and name in contestants
    }
    return {
        key: replace(figure, refuted=_refuted(figure, figures)) for key, figure in figures.items()
    }


def _refuted(figure: Figure, figures: Mapping[tuple[str, str], Figure]) -> str:
    """Return what `bolide load` found in the same load; "" if it has a figure or found nothing.

    Other tools see neither which connections are served nor whether a response is the right one.
    """
    load = figure.workload.name.removesuffix(figure.workload.tool)
    checked = figures.get((f"{load}{CHECKING_TOOL}", figure.contestant.name))
    if figure.workload.tool == CHECKING_TOOL or checked is None or checked.valid:
        return ""
    found = [service.refutation(each, checked.workload) for each in checked.trials]
    said = [each for each in found if each]
    is_sure = len(said) > len(found) / 2
    return f"bolide load found that {said[0]}" if is_sure else ""
