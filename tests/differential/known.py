"""What is known to differ from uvicorn, and why; docs/asyncio.md says the same to users."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

EVERYWHERE = ("eager", "debug", "uvloop")
LENT = ("eager", "uvloop")
"""Where tasks are lent; in debug mode each request has one of its own."""


@dataclass(frozen=True)
class Difference:
    """What a program observes on Bolide where that is not what it observes on uvicorn."""

    reason: str
    observed: Any
    """Round by round."""
    variants: tuple[str, ...] = EVERYWHERE
    stages: tuple[str, ...] = ("first", "later")
    is_meant: bool = True
    """Whether it stays; otherwise it is a defect to be fixed."""
    since: tuple[int, int] = (3, 11)
    """The first Python that shows it."""


OWN_AWAITABLES = (
    "receive() and send() return awaitables of the core, which cost less than coroutines"
)
OWN_COROUTINE = "the coroutine of a request's task is one of the core around the application's"
SHARED_TASK = "a request has a task of its own from its first suspension on"
MADE_AHEAD = "a task is made before its request, and used again if the request has not waited"
CONTEXT_MADE_AHEAD = "a task's context is fixed when it is made, which is before its request"
A_TURN_LATER = "uvloop runs the first step of a task, which takes its future, a turn later"

KNOWN: dict[str, list[Difference]] = {
    "send_is_a_coroutine": [Difference(OWN_AWAITABLES, ["yny"] * 3)],
    "receive_is_a_coroutine": [
        Difference(OWN_AWAITABLES, [[[True, False, True], [False, False]]] * 3)
    ],
    "coroutine_of_the_task": [Difference(OWN_COROUTINE, [[True, True, False, True]] * 3)],
    "context_of_the_task": [
        Difference(CONTEXT_MADE_AHEAD, [[None, None]] * 3, variants=("uvloop",), since=(3, 12))
    ],
    "task_is_in_all_tasks": [
        Difference(SHARED_TASK, [[False, True]] * 3, variants=LENT, stages=("first",))
    ],
    "anyio_looks_at_tasks": [
        Difference(SHARED_TASK, [[[False, True, True], True]] * 3, variants=LENT, stages=("first",))
    ],
    "tasks_have_names_of_their_own": [
        Difference(
            MADE_AHEAD,
            [[True, True], [False, False], [False, False]],
            variants=("eager",),
            stages=("first",),
        ),
        Difference(MADE_AHEAD, [[False, False]] * 3, variants=("eager",), stages=("later",)),
    ],
    "requests_wake_in_their_order": [
        Difference(
            A_TURN_LATER,
            [[[0, "child 0", 1, "child 1", 2, "child 2"]] * 3] * 3,
            variants=("uvloop",),
            stages=("first",),
        )
    ],
    "timeout_and_cancellation": [
        Difference(
            A_TURN_LATER,
            [[[["CancelledError", "outside"], False, 1], "slept"]] * 3,
            variants=("uvloop",),
            stages=("first",),
        )
    ],
}
"""By the program's name."""


def difference(name: str, stage: str, variant: str) -> Difference | None:
    """Return what is known about a program, if it differs."""
    for each in KNOWN.get(name, []):
        is_shown = sys.version_info >= each.since
        if is_shown and stage in each.stages and variant in each.variants:
            return each
    return None


def documented() -> Iterator[str]:
    """Return the names of the programs whose differences stay."""
    return (name for name, each in KNOWN.items() if any(one.is_meant for one in each))
