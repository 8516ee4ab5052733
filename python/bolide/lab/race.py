"""A race: runs the trials of a study one after another, and writes each result at once."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Protocol

import msgspec

from bolide import temporary
from bolide.errors import ConfigError
from bolide.lab import until
from bolide.lab.ending import terminable
from bolide.lab.matching import fits
from bolide.lab.plan import contestant as contestants
from bolide.lab.plan import duration, environments, fingerprint, open_loop
from bolide.lab.plan.contestant import Contestant
from bolide.lab.plan.fleet import Joined, cannot_listen
from bolide.lab.plan.schedule import Session, Slot, reason_to_skip, sessions, slots
from bolide.lab.plan.user_application import UserApplication
from bolide.lab.record import machine, redaction, resume, schema
from bolide.lab.record.journal import Journal, read
from bolide.lab.record.schema import Study, Trial, Workload
from bolide.lab.report.summary import gather
from bolide.lab.tools import find
from bolide.lab.trial import network, trial, turns
from bolide.lab.trial.repeats import Repeats
from bolide.lab.trial.secure import new_pair

DESCRIPTORS_SPARE = 200
DESCRIPTORS_MIN = 65_536
COPY = "-again"
"""End of the name of a contestant's copy."""
WARM_UP_S = 0.5
WARM_UP_QUICK_S = 0.2
NOISY_SHARE_MAX = 0.2
"""Share of the trials up to which noisy ones are repeated; above it, the machine is too busy."""
TURN_REPEATS_SHARE = 0.5
"""The same of turns, which are short."""


@dataclass(frozen=True)
class Options:
    """What the user requested, besides the study."""

    out: Path
    server_cpus: tuple[int, ...]
    load_cpus: tuple[int, ...]
    only: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    is_quick: bool = False
    resumes: bool = False
    seed: int = 0
    application: UserApplication | None = None
    notes: tuple[str, ...] = ()
    """What was changed in the study before the race, shown when it starts."""
    is_doubled: bool = False
    """Whether each contestant takes part twice, to show by how much equal ones differ."""
    until: float | None = None
    """Share of a rate to which its interval has to narrow, by more rounds than the study's."""
    fleet: Joined | None = None
    """What generates the load instead of this machine."""


class Display(Protocol):
    """What shows the progress of a race."""

    def note(self, text: str) -> None:
        """Show a remark."""

    def start(self, slots: Sequence[Slot], done: int) -> None:
        """Show that these trials follow; `done` trials were run before."""

    def running(self, slot: Slot) -> None:
        """Show that a trial starts."""

    def ended(self, found: Trial) -> None:
        """Show how a trial ended."""


def run(
    study: Study,
    names: Sequence[str],
    options: Options,
    display: Display,
    among: dict[str, Contestant] | None = None,
) -> bool:
    """Run a race until it ends or is interrupted; return whether it is complete.

    Raises:
        ConfigError: nothing of it can run here, its folder has another race, or cannot be written.
    """
    known = dict(contestants.own()) if among is None else among
    field = _chosen(study, names, options, known, display)
    copies: dict[str, str] = {}
    if options.is_doubled:
        study, field, copies = _doubled(study, field)
    if study.turn_s and options.until is not None:
        raise ConfigError("--until is not for a study with turns; give --rounds")
    resume.check_new(options.out, resumes=options.resumes)
    study, versions = _with_tools(study, options, display)
    states = {each.name: _examined(each, options.fleet) for each in field}
    ready = _ready(field, states, study, display)
    limit_descriptors(max(each.connections for each in study.workloads))
    conditions = trial.Conditions(
        study=study.name,
        server_cpus=options.server_cpus,
        load_cpus=options.load_cpus,
        warm_up_s=WARM_UP_QUICK_S if options.is_quick else WARM_UP_S,
        turn_warm_up_s=turns.WARM_UP_S if study.turn_s else 0.0,
        application=options.application,
        versions=versions,
        fleet=options.fleet,
    )
    if any(each.tls for each in study.workloads):
        conditions = replace(conditions, pair=new_pair(conditions.address))
    temporary.remove_left(redaction.TRIAL_PREFIX)
    with Journal(options.out) as journal:
        earlier = read(options.out)
        described = _described(options)
        opening: list[schema.Record] = [described, study]
        entries = (_with_parts(each, describe(each, states[each.name], study)) for each in field)
        opening += [_marked(each, copies) for each in entries]
        resume.check_same(options.out, earlier, opening, versions)
        done = {_key_of(each) for each in earlier if isinstance(each, Trial)}
        if machine.BUILT_FOR_TESTS in (described.bolide_version or ""):
            display.note(
                "this Bolide was built for tests and is slower than a release (make setup)"
            )
        for record in opening:
            if record not in earlier:
                journal.write(record)
        notes = (*_shared_processors(options), *_shared_cores(described))
        for note in (*options.notes, *notes):
            display.note(note)
        planned = _sessions(study, ready, options.seed)
        order = [slot for session in planned for slot in session.slots]
        left = [slot for slot in order if _key(slot) not in done]
        _announce(left, display, options.fleet)
        display.start(left, len(order) - len(left))
        with _off_server_cpus(options):
            if study.turn_s:
                is_whole = _turns(planned, done, conditions, journal, display)
            elif options.until is None:
                is_whole = _trials(left, conditions, journal, display)
            else:
                is_whole = _until(left, study, ready, options, conditions, journal, display)
        _warn_of_noise(options.out, display)
        return is_whole


def _sessions(study: Study, ready: Sequence[Contestant], seed: int) -> list[Session]:
    """Return what follows each other; without turns, that is a single session."""
    rounds = range(1, study.rounds + 1)
    if study.turn_s is None:
        return [Session("", slots(ready, study.workloads, rounds, seed))]
    return sessions(ready, study.workloads, rounds, study.turns, seed)


def _turns(
    planned: Sequence[Session],
    done: set[tuple[str, str, int]],
    conditions: trial.Conditions,
    journal: Journal,
    display: Display,
) -> bool:
    """Run the sessions; return whether they were not ended early."""
    left = [[slot for slot in each.slots if _key(slot) not in done] for each in planned]
    repeats = Repeats(TURN_REPEATS_SHARE, sum(map(len, left)))

    def keep(slot: Slot, found: Trial) -> None:
        display.running(slot)
        journal.write(found)

    with _stoppable() as stopped:
        for session, slots_left in zip(planned, left, strict=True):
            if slots_left:
                repeats.grant(len(slots_left))
                rest = Session(session.name, slots_left)
                turns.run(rest, conditions, repeats, keep, display.ended)
    return not stopped


def _until(
    left: Sequence[Slot],
    study: Study,
    ready: Sequence[Contestant],
    options: Options,
    conditions: trial.Conditions,
    journal: Journal,
    display: Display,
) -> bool:
    """Run the trials and more rounds, then the open loop, whose rates follow from all of them."""
    closed = [each for each in left if not each.workload.maximum]
    if not _trials(closed, conditions, journal, display):
        return False
    if not _more_rounds(study, ready, options, conditions, journal, display):
        return False
    rest = [each for each in left if each.workload.maximum]
    if rest:
        display.start(rest, 0)
    return _trials(rest, conditions, journal, display)


def _more_rounds(
    study: Study,
    ready: Sequence[Contestant],
    options: Options,
    conditions: trial.Conditions,
    journal: Journal,
    display: Display,
) -> bool:
    """Run rounds until all intervals are narrow or will not be; return whether it was not ended."""
    number = study.rounds
    while True:
        records = journal.records()
        results = [each for each in gather(records).results if each.study.name == study.name]
        left = until.need(results[0], options.until or 0.0) if results else until.Need([], [])
        if not left.workloads:
            for sentence in left.hopeless:
                display.note(sentence)
            return True
        number += 1
        done = {_key_of(each) for each in records if isinstance(each, Trial)}
        order = slots(ready, left.workloads, [number], options.seed)
        order = [slot for slot in order if _key(slot) not in done]
        _announce(order, display, options.fleet)
        display.start(order, 0)
        if not _trials(order, conditions, journal, display):
            return False


def _announce(slots: Sequence[Slot], display: Display, joined: Joined | None) -> None:
    if slots:
        fleet = joined.fleet if joined else None
        display.note(duration.announcement(slots, datetime.now(), fleet))


def _examined(each: Contestant, joined: Joined | None) -> environments.Status:
    """Return whether a contestant can run here, and listens where the load comes from."""
    found = environments.examine(each)
    reason = cannot_listen(each, joined.described.server_address) if joined else ""
    return replace(found, state="cannot run here", reason=reason) if reason else found


def _shared_processors(options: Options) -> list[str]:
    """Return a warning if server and load use the same processors."""
    if options.fleet is not None and not options.fleet.fleet.is_local:
        near = ", ".join(options.fleet.near)
        said = f"the agents {near} run on the machine of the servers: each takes time from the"
        return [f"{said} other, so no rate is the server's own"] if near else []
    shared = sorted({*options.server_cpus} & {*options.load_cpus})
    if not shared:
        return []
    which = f"processor{'s' * (len(shared) > 1)} {', '.join(map(str, shared))}"
    return [
        f"server and load share {which}: each takes time from the other, so no rate is the"
        " server's own (--cpus)"
    ]


def _shared_cores(described: schema.Machine) -> list[str]:
    """Return a warning if processors of server and load are threads of one core."""
    if described.fleet is not None and not described.fleet.is_local:
        return []
    server, load = ({*(each or ())} for each in (described.server_cpus, described.load_cpus))
    found = []
    for core in described.shared_cores or ():
        if core_of_server := server.intersection(core):
            beside = load.intersection(core) - core_of_server
            found += sorted(core_of_server | beside) if beside else []
    if not found:
        return []
    which = ", ".join(map(str, found))
    return [
        f"processors {which} are threads of the same cores, on which server and load take time"
        " from each other: choose processors of different cores (--cpus)"
    ]


def _doubled(
    study: Study, field: Sequence[Contestant]
) -> tuple[Study, list[Contestant], dict[str, str]]:
    """Return a study and contestants that are all run twice, and the copies' originals by name."""
    copies = {f"{each.name}{COPY}": each.name for each in field}
    both = [*field]
    for each in field:
        entry = msgspec.structs.replace(
            each.entry, name=f"{each.name}{COPY}", title=f"{each.entry.title}, again"
        )
        both.append(msgspec.structs.replace(each, entry=entry))
    workloads = tuple(
        msgspec.structs.replace(
            each, contestants=(*each.contestants, *(f"{name}{COPY}" for name in each.contestants))
        )
        for each in study.workloads
    )
    return msgspec.structs.replace(study, workloads=workloads), both, copies


def _marked(entry: schema.Contestant, copies: dict[str, str]) -> schema.Contestant:
    """Return the record of a copy as one; a copy of the ceiling is no second ceiling."""
    if entry.name not in copies:
        return entry
    return msgspec.structs.replace(entry, copy_of=copies[entry.name], role="server")


def _warn_of_noise(folder: Path, display: Display) -> None:
    """Warn that the machine is busy if too many trials stayed noisy."""
    latest = {_key_of(each): each.verdict for each in read(folder) if isinstance(each, Trial)}
    noisy = sum(verdict == "noisy" for verdict in latest.values())
    if noisy > NOISY_SHARE_MAX * len(latest):
        display.note(
            f"{noisy} of {len(latest)} trials were noisy: stop other programs on these processors,"
            " or do not trust these figures"
        )


def _trials(
    order: Sequence[Slot],
    conditions: trial.Conditions,
    journal: Journal,
    display: Display,
) -> bool:
    """Run the trials. A disturbed one is repeated at once, under the conditions of its round.

    An open loop takes its rates from the trials of this race so far.
    """
    repeats = Repeats(NOISY_SHARE_MAX, len(order))
    earlier = [each for each in journal.records() if isinstance(each, Trial)]
    with _stoppable() as stopped:
        for _, slots_of_round in groupby(order, key=lambda slot: slot.round):
            together = [*slots_of_round]
            repeats.grant(len(together))
            for slot in together:
                found = _attempt(slot, conditions, journal, display, earlier)
                if found.is_disturbed and repeats.take():
                    found = _attempt(slot, conditions, journal, display, earlier)
                display.ended(found)
    return not stopped


@contextmanager
def _stoppable() -> Iterator[list[str]]:
    """Run the body until it ends or is interrupted; then the list is not empty.

    Raises:
        ConfigError: the system refuses something that the race needs.
    """
    stopped: list[str] = []
    try:
        with terminable():
            yield stopped
    except KeyboardInterrupt:
        stopped.append("interrupted")
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise ConfigError(f"the race cannot continue: {error.strerror or error}{where}") from None


def _attempt(
    slot: Slot,
    conditions: trial.Conditions,
    journal: Journal,
    display: Display,
    earlier: list[Trial],
) -> Trial:
    display.running(slot)
    placed: Slot | None = slot
    if slot.workload.maximum:
        base = open_loop.closed(slot.workload)
        placed = open_loop.with_rate(slot, open_loop.maxima(earlier, base))
    if placed is None:
        message = f"{slot.workload.maximum} has no figure, so the rate to offer is not known"
        found = trial.failed(slot, conditions, schema.Failure("no_maximum", message))
    else:
        found = _beyond_limit(placed, conditions) or trial.run(placed, conditions)
    journal.write(found)
    earlier.append(found)
    return found


def _beyond_limit(slot: Slot, conditions: trial.Conditions) -> Trial | None:
    """Return a failure if the load needs more descriptors than server or generator may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = slot.workload.connections + DESCRIPTORS_SPARE
    if needed <= soft:
        return None
    message = f"{needed:,} descriptors are needed, {soft:,} allowed (ulimit -n {needed})"
    return trial.failed(slot, conditions, schema.Failure("descriptor_limit", message))


def _chosen(
    study: Study,
    names: Sequence[str],
    options: Options,
    known: dict[str, Contestant],
    display: Display,
) -> list[Contestant]:
    if options.application is not None:
        interface = options.application.interface
        field = [each for each in known.values() if each.entry.takes_app == interface]
        field += [each for each in known.values() if _is_plain_ceiling(each)]
    else:
        field = contestants.chosen(names, known)
    if not options.only:
        return field
    wanted = {each.name for each in contestants.chosen(options.only, known)}
    kept = [each for each in field if each.name in wanted]
    missing = wanted - {each.name for each in kept}
    if options.application is None and missing:
        _check_added(study, sorted(missing), [each.name for each in field])
        display.note(f"added to the study {study.name}: {', '.join(sorted(missing))}")
        kept += [known[name] for name in sorted(missing)]
    if not kept:
        raise ConfigError(f"{', '.join(sorted(wanted))} cannot run this application")
    return kept


def _is_plain_ceiling(each: Contestant) -> bool:
    return each.entry.role == "ceiling" and not each.entry.uses_tls


def _check_added(study: Study, names: Sequence[str], own: Sequence[str]) -> None:
    """Check that contestants outside the study, which --only names, have a workload to run.

    Raises:
        ConfigError: every workload is for certain contestants, and one of these is not among them.
    """
    for name in names:
        if all(each.contestants and name not in each.contestants for each in study.workloads):
            raise ConfigError(
                f"{name} is not in the study {study.name}, whose workloads are for certain"
                f" contestants; it has {', '.join(own)}"
            )


def _with_tools(
    study: Study, options: Options, display: Display
) -> tuple[Study, dict[str, str | None]]:
    """Leave out workloads that were not requested or whose tool is not installed."""
    if not study.workloads:
        raise ConfigError(
            "no workload of this study is in a quick race, or none has an installed tool"
        )
    wanted = options.workloads or ("*",)
    chosen = [each for each in study.workloads if any(fits(each.name, text) for text in wanted)]
    bases = {each.maximum for each in chosen}
    chosen = [each for each in study.workloads if each in chosen or each.name in bases]
    if not chosen:
        every = ", ".join(each.name for each in study.workloads[:8])
        raise ConfigError(f"no workload has that name; the study has {every}")
    versions = {each.tool: find(each.tool).version() for each in chosen}
    refusals = {each.name: network.refusal(each.sysctls) for each in chosen if each.sysctls}
    left = [each for each in chosen if versions[each.tool] is not None]
    left = [each for each in left if not refusals.get(each.name)]
    for name in sorted(name for name, version in versions.items() if version is None):
        count = sum(each.tool == name for each in chosen)
        display.note(f"{name} is not installed: {count} of {len(chosen)} workloads are left out")
    for name, reason in refusals.items():
        if reason:
            display.note(f"{name} is left out: {reason}")
    if not left:
        is_refused = any(refusals.values())
        raise ConfigError("no workload is left" if is_refused else "none of the tools is installed")
    names = {each.name for each in left}
    left = [each for each in left if not each.maximum or each.maximum in names]
    _note_processors(left, options, display)
    return schema.with_workloads(study, left), versions


def _note_processors(workloads: Sequence[Workload], options: Options, display: Display) -> None:
    """Report that the document gives the server more processors than this race."""
    number = len(options.server_cpus)
    wanting = [each.processors for each in workloads if (each.processors or 1) > number]
    if wanting:
        display.note(
            f"{len(wanting)} workloads give the server {wanting[0]} processors;"
            f" here it has {number} (--cpus)"
        )


def _described(options: Options) -> schema.Machine:
    """Describe the machine, and the processors that the race uses."""
    return msgspec.structs.replace(
        machine.describe(),
        server_cpus=options.server_cpus,
        load_cpus=options.load_cpus,
        seed=options.seed,
        parts=fingerprint.of_race(options.application),
        fleet=options.fleet.described if options.fleet else None,
    )


def _with_parts(each: Contestant, record: schema.Contestant) -> schema.Contestant:
    return msgspec.structs.replace(record, parts=fingerprint.of_contestant(each))


def _key(slot: Slot) -> tuple[str, str, int]:
    return (slot.workload.name, slot.contestant.name, slot.round)


def _key_of(found: Trial) -> tuple[str, str, int]:
    return (found.workload, found.contestant, found.round)


def _ready(
    field: Sequence[Contestant],
    states: dict[str, environments.Status],
    study: Study,
    display: Display,
) -> list[Contestant]:
    """Return the contestants that can run here, and show why the others cannot.

    Raises:
        ConfigError: there is none, or none fits a workload.
    """
    for each in field:
        status = states[each.name]
        if status.state != "ready":
            display.note(f"{each.name}: {status.state}, {status.reason}")
    ready = [each for each in field if states[each.name].state == "ready"]
    if not ready:
        raise ConfigError("none of these contestants can run here (bolide race list)")
    reasons = {reason_to_skip(each, workload) for each in ready for workload in study.workloads}
    if "" not in reasons:
        raise ConfigError(f"no contestant fits these workloads: {'; '.join(sorted(reasons))}")
    return ready


def describe(
    each: Contestant, status: environments.Status, study: Study | None = None
) -> schema.Contestant:
    """Return the record of a contestant."""
    entry = each.entry
    remarks = list(entry.remarks)
    if study is not None:
        reasons = {reason_to_skip(each, workload) for workload in study.workloads} - {""}
        remarks += [f"some workloads are left out: {reason}" for reason in sorted(reasons)]
    return schema.Contestant(
        name=entry.name,
        title=entry.title,
        role=entry.role,
        interface=entry.interface,
        version=status.version,
        language=each.language,
        settings=" ".join(entry.command),
        state=status.state,
        reason=redaction.redacted_text(status.reason),
        remarks=tuple(remarks),
        program=entry.program,
        loop=entry.loop,
    )


@contextmanager
def _off_server_cpus(options: Options) -> Iterator[None]:
    """Keep this process, which samples, off the server's processors, and the load's if possible."""
    earlier = os.sched_getaffinity(0)
    spare = earlier - {*options.server_cpus, *options.load_cpus}
    os.sched_setaffinity(0, spare or options.load_cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, earlier)


def limit_descriptors(connections: int) -> None:
    """Raise the descriptor limit of this process and its children to what the connections need.

    It is not raised to the hard limit, which can be 10^9 in a container: servers allocate tables of
    that size.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = max(connections + DESCRIPTORS_SPARE, DESCRIPTORS_MIN)
    if hard != resource.RLIM_INFINITY:
        enough = min(enough, hard)
    if soft != enough:
        resource.setrlimit(resource.RLIMIT_NOFILE, (enough, hard))
