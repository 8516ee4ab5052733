"""The order of the trials: each round has every workload, each workload every contestant, shuffled.

Without shuffling, a contestant would always run under the after-effects of the same other one.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from bolide.lab.plan.contestant import Contestant
from bolide.lab.record.schema import Workload


@dataclass(frozen=True)
class Slot:
    """A place in the schedule: one trial of a contestant at a workload."""

    round: int
    workload: Workload
    contestant: Contestant


def reason_to_skip(contestant: Contestant, workload: Workload) -> str:
    """Return why a contestant does not run a workload; "" if it runs it."""
    entry = contestant.entry
    if workload.contestants and contestant.name not in workload.contestants:
        return "the workload is for other contestants"
    if workload.is_persistent and not entry.is_persistent:
        return "it closes every connection"
    if not workload.is_persistent and not entry.closes:
        return "a request with Connection: close makes it exit"
    if workload.pipeline_depth > 1 and not entry.pipelines:
        return "it does not serve pipelined requests"
    most = entry.connections_max
    if workload.is_persistent and most is not None and workload.connections > most:
        return f"it serves {most} persistent connections at a time"
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
        for workload in part:
            if number > (workload.rounds or number):
                continue
            field = [each for each in contestants if not reason_to_skip(each, workload)]
            random.Random(f"{seed} {number} {workload.name}").shuffle(field)  # noqa: S311
            found += [Slot(number, workload, each) for each in field]
    return found
