"""The order of the trials: each round has every workload, each workload every contestant.

Both are shuffled. Otherwise a contestant would always run under the after-effects of the same other
one, and the ratio of two workloads would have those of their order.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from bolide.lab.plan.contestant import Contestant
from bolide.lab.plan.shipped import unwritable
from bolide.lab.record.schema import Workload


@dataclass(frozen=True)
class Slot:
    """A place in the schedule: one trial of a contestant at a workload."""

    round: int
    workload: Workload
    contestant: Contestant
    is_turn: bool = False
    """Whether its server runs already, because it is loaded in turns with others."""


@dataclass(frozen=True)
class Session:
    """A round of a group of workloads, whose servers all run and are loaded in turns.

    The round of a slot is the number of its turn in the whole race.
    """

    name: str
    slots: list[Slot]


def reason_to_skip(contestant: Contestant, workload: Workload) -> str:
    """Return why a contestant does not run a workload; "" if it runs it."""
    entry = contestant.entry
    if workload.contestants and contestant.name not in workload.contestants:
        return "the workload is for other contestants"
    if entry.uses_tls != bool(workload.tls):
        return "it serves TLS only" if entry.uses_tls else "it does not serve TLS"
    if workload.http_version == "2" and not entry.serves_http2:
        return "it does not serve HTTP/2"
    if workload.messages:
        return _reason_of_messages(contestant, workload)
    if workload.is_persistent and not entry.is_persistent:
        return "it closes every connection"
    if not workload.is_persistent and not entry.closes:
        return "a request with Connection: close makes it exit"
    if workload.pipeline_depth > 1 and not entry.pipelines:
        return "it does not serve pipelined requests"
    most = entry.connections_max
    if workload.is_persistent and most is not None and workload.connections > most:
        return f"it serves {most} persistent connections at a time"
    return unwritable(contestant, workload)


def _reason_of_messages(contestant: Contestant, workload: Workload) -> str:
    """Return the same for a workload of WebSockets."""
    entry = contestant.entry
    if not entry.serves_messages:
        return "it does not serve WebSockets"
    if workload.is_compressed and not entry.compresses:
        return "it does not compress messages"
    if workload.messages == "broadcast" and entry.is_canned:
        return "it only sends messages back"
    return ""


def slots(
    contestants: Sequence[Contestant],
    workloads: Iterable[Workload],
    rounds: Iterable[int],
    seed: int,
) -> list[Slot]:
    """Return every trial of these rounds in order; a seed determines the order."""
    found = []
    workloads = list(workloads)
    # An open loop needs the maxima of all rounds, so that its rates are the same in each.
    parts = ([w for w in workloads if not w.maximum], [w for w in workloads if w.maximum])
    for part, number in product(parts, tuple(rounds)):
        for workload in random.Random(f"{seed} {number}").sample(part, len(part)):  # noqa: S311
            if number > (workload.rounds or number):
                continue
            field = [each for each in contestants if not reason_to_skip(each, workload)]
            random.Random(f"{seed} {number} {workload.name}").shuffle(field)  # noqa: S311
            found += [Slot(number, workload, each) for each in field]
    return found


def sessions(
    contestants: Sequence[Contestant],
    workloads: Iterable[Workload],
    rounds: Iterable[int],
    turns: int,
    seed: int,
) -> list[Session]:
    """Return every session of these rounds in order, each with `turns` turns in shuffled order.

    A workload with a number of requests has one turn in each session.
    """
    groups: dict[str, list[Slot]] = {}
    for workload in workloads:
        pairs = groups.setdefault(workload.group or workload.name, [])
        field = (each for each in contestants if not reason_to_skip(each, workload))
        pairs += [Slot(0, workload, each) for each in field]
    found = []
    for number in rounds:
        dice = random.Random(f"{seed} {number}")  # noqa: S311
        names = list(groups)
        dice.shuffle(names)
        for name in names:
            slots = []
            for turn in range(turns):
                pairs = [each for each in groups[name] if _has_turn(each.workload, number, turn)]
                dice.shuffle(pairs)
                at = (number - 1) * turns + turn + 1
                slots += [Slot(at, each.workload, each.contestant, True) for each in pairs]
            if slots:
                found.append(Session(name, slots))
    return found


def _has_turn(workload: Workload, number: int, turn: int) -> bool:
    if number > (workload.rounds or number):
        return False
    return turn == 0 or workload.duration_s is not None
