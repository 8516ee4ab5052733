"""A race: a study's trials one after another, each written down as soon as it is known."""

from __future__ import annotations

import os
import resource
import signal
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bolide.errors import ConfigError
from bolide.lab import contestant as contestants
from bolide.lab import machine, results, setup, trial
from bolide.lab.contestant import Contestant
from bolide.lab.launch import Guest
from bolide.lab.results import Journal, Study, Trial
from bolide.lab.schedule import slots, takes_part
from bolide.lab.tools import find

DESCRIPTORS_SPARE = 200
WARM_UP_S = 0.5
WARM_UP_QUICK_S = 0.2
NOISY_SHARE_MAX = 0.2
"""Of all trials: so many noisy ones are measured once more, a machine with more is not quiet."""


@dataclass(frozen=True)
class Options:
    """What the user asked for, beside the study."""

    out: Path
    server_cpus: tuple[int, ...]
    load_cpus: tuple[int, ...]
    only: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    is_quick: bool = False
    resumes: bool = False
    seed: int = 0
    guest: Guest | None = None


class Show(Protocol):
    """What is told while a race runs."""

    def note(self, text: str) -> None:
        """Tell one thing."""

    def start(self, slots: Sequence[trial.Slot], done: int) -> None:
        """Tell what is to come."""

    def running(self, slot: trial.Slot) -> None:
        """Tell that a trial starts."""

    def ended(self, found: Trial) -> None:
        """Tell how it went."""


@dataclass(frozen=True)
class Outcome:
    """How it ended."""

    was_stopped: bool


def run(
    study: Study,
    names: Sequence[str],
    options: Options,
    show: Show,
    among: dict[str, Contestant] | None = None,
) -> Outcome:
    """Run a race, to its end or until it is interrupted.

    Raises:
        ConfigError: nothing of it can run here, or its folder has another race.
    """
    known = dict(contestants.own()) if among is None else among
    field = _chosen(names, options, known)
    study, versions = _with_tools(study, options, show)
    done = _done(study, options)
    raise_descriptor_limit()
    conditions = trial.Conditions(
        study=study.name,
        server_cpus=options.server_cpus,
        load_cpus=options.load_cpus,
        warm_up_s=WARM_UP_QUICK_S if options.is_quick else WARM_UP_S,
        guest=options.guest,
        versions=versions,
    )
    with Journal(options.out) as journal:
        described = machine.describe()
        journal.write(described)
        if not done:
            journal.write(study)
        ready = _ready(field, study, journal, show, is_noted=not done)
        if machine.BUILT_FOR_TESTS in (described.bolide_version or ""):
            show.note("this Bolide was built for tests and is slower than a release (make setup)")
        if not ready:
            raise ConfigError("none of these contestants can run here (bolide race list)")
        order = slots(ready, study.workloads, study.rounds, options.seed)
        left = [slot for slot in order if _key(slot) not in done]
        show.start(left, len(order) - len(left))
        with _one_processor(options.load_cpus):
            outcome = _trials(left, conditions, journal, show)
            if outcome.was_stopped or not (again := _noisy(order, options.out, show)):
                return outcome
            show.start(again, len(order))
            return _trials(again, conditions, journal, show)


def _noisy(order: Sequence[trial.Slot], folder: Path, show: Show) -> list[trial.Slot]:
    """Give the trials that others at work have spoilt, and that were not measured again yet."""
    verdicts = defaultdict(list)
    for each in results.read(folder):
        if isinstance(each, Trial):
            verdicts[each.workload, each.contestant, each.round].append(each.verdict)
    once = [slot for slot in order if verdicts[_key(slot)] == ["noisy"]]
    if len(once) > NOISY_SHARE_MAX * len(order):
        show.note(
            f"{len(once)} of {len(order)} trials were noisy: end what else runs on these"
            " processors, or do not trust these figures"
        )
        return []
    if once:
        show.note(f"noisy trials, measured again: {len(once)}")
    return once


def _trials(
    order: Sequence[trial.Slot], conditions: trial.Conditions, journal: Journal, show: Show
) -> Outcome:
    try:
        with _terminable():
            for slot in order:
                show.running(slot)
                each = _limited(slot, conditions) or trial.run(slot, conditions)
                journal.write(each)
                show.ended(each)
    except KeyboardInterrupt:
        return Outcome(was_stopped=True)
    return Outcome(was_stopped=False)


def _limited(slot: trial.Slot, conditions: trial.Conditions) -> Trial | None:
    """Refuse a load for which server or generator would have too few descriptors."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = slot.workload.connections + DESCRIPTORS_SPARE
    if needed <= soft:
        return None
    message = f"{needed:,} descriptors are needed, {soft:,} allowed (ulimit -n {needed})"
    return trial.failed(slot, conditions, results.Failure("descriptor_limit", message))


def _chosen(
    names: Sequence[str], options: Options, known: dict[str, Contestant]
) -> list[Contestant]:
    if options.guest is not None:
        fitting = options.guest.interface
        field = [each for each in known.values() if each.entry.takes_app == fitting]
        field += [each for each in known.values() if each.entry.role == "ceiling"]
    else:
        field = contestants.chosen(names, known)
    if not options.only:
        return field
    wanted = {each.name for each in contestants.chosen(options.only, known)}
    kept = [each for each in field if each.name in wanted]
    missing = wanted - {each.name for each in kept}
    if options.guest is None:  # whoever names a contestant wants it, of this study or not
        kept += [known[name] for name in sorted(missing)]
    if not kept:
        raise ConfigError(f"{', '.join(sorted(wanted))} cannot run this application")
    return kept


def _with_tools(study: Study, options: Options, show: Show) -> tuple[Study, dict[str, str | None]]:
    """Leave out the workloads that were not asked for, and those whose tool is not installed."""
    asked = [each for each in study.workloads if _is_asked_for(each.name, options.workloads)]
    if not asked:
        every = ", ".join(each.name for each in study.workloads[:8])
        raise ConfigError(f"no workload has that name; the study has {every}")
    versions = {each.tool: find(each.tool).version() for each in asked}
    left = [each for each in asked if versions[each.tool] is not None]
    for name in sorted(name for name, version in versions.items() if version is None):
        count = sum(each.tool == name for each in asked)
        show.note(f"{name} is not installed, which leaves out {count} of {len(asked)} workloads")
    if not left:
        raise ConfigError("none of the tools is installed")
    return results.with_workloads(study, left), versions


def _is_asked_for(name: str, asked: Sequence[str]) -> bool:
    return not asked or any(
        name == each or (each.endswith("*") and name.startswith(each[:-1])) for each in asked
    )


def _done(study: Study, options: Options) -> set[tuple[str, str, int]]:
    """Find what a race that is resumed has measured already."""
    if not (options.out / results.FILE_NAME).exists():
        return set()
    if not options.resumes:
        raise ConfigError(f"{options.out} has results already; add --resume, or name another --out")
    records = results.read(options.out)
    earlier = [record for record in records if isinstance(record, Study)]
    if earlier and earlier[0] != study:
        raise ConfigError(f"{options.out} has another race ({earlier[0].name}, other settings)")
    return {
        (each.workload, each.contestant, each.round) for each in records if isinstance(each, Trial)
    }


def _key(slot: trial.Slot) -> tuple[str, str, int]:
    return (slot.workload.name, slot.contestant.name, slot.round)


def _ready(
    field: Sequence[Contestant], study: Study, journal: Journal, show: Show, *, is_noted: bool
) -> list[Contestant]:
    """Write down who is there, and give those that can run."""
    ready = []
    for each in field:
        status = setup.examine(each)
        if is_noted:
            journal.write(describe(each, status, study))
        if status.state == "ready":
            ready.append(each)
        else:
            show.note(f"{each.name}: {status.state}, {status.reason}")
    return ready


def describe(
    each: Contestant, status: setup.Status, study: Study | None = None
) -> results.Contestant:
    """Give a contestant's record."""
    entry = each.entry
    remarks = list(entry.remarks)
    if study is not None:
        reasons = {takes_part(each, workload) for workload in study.workloads} - {""}
        remarks += [f"some workloads are left out: {reason}" for reason in sorted(reasons)]
    return results.Contestant(
        name=entry.name,
        title=entry.title,
        role=entry.role,
        interface=entry.interface,
        version=status.version,
        language=each.language,
        settings=" ".join(entry.command),
        state=status.state,
        reason=status.reason,
        remarks=tuple(remarks),
    )


@contextmanager
def _terminable() -> Iterator[None]:
    """Treat TERM like Ctrl-C, so that everything started is ended and what is measured is kept."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    earlier = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, earlier)


@contextmanager
def _one_processor(cpus: Sequence[int]) -> Iterator[None]:
    """Keep this process, which samples, off the server's processors."""
    earlier = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, earlier)


def raise_descriptor_limit() -> None:
    """Allow this process, and what it starts, all the descriptors that it may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
