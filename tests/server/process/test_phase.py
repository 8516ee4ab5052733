"""What a supervisor accepts in each phase, and that nothing that it has accepted is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bolide.server.process.phase import TRANSITIONS, Course, Event, Phase, When

ASKED = (Event.RELOAD, Event.UPGRADE, Event.SCALE, Event.STOP)
NEVER, NOW, LATER = When.NEVER, When.NOW, When.LATER
WAYS = {
    Phase.STARTING: (),
    Phase.SERVING: (Event.STARTED,),
    Phase.RELOADING: (Event.STARTED, Event.RELOAD),
    Phase.UPGRADING: (Event.STARTED, Event.UPGRADE),
    Phase.ENDING: (Event.STOP,),
}
"""How each phase is reached."""


def reached(phase: Phase) -> Course:
    course = Course()
    for event in WAYS[phase]:
        course.enter(event)
    assert course.phase is phase
    return course


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        (Phase.STARTING, (LATER, LATER, NEVER, NOW)),
        (Phase.SERVING, (NOW, NOW, NOW, NOW)),
        (Phase.RELOADING, (NOW, LATER, NOW, NOW)),
        (Phase.UPGRADING, (LATER, NEVER, NEVER, NOW)),
        (Phase.ENDING, (NEVER, NEVER, NEVER, NOW)),
    ],
)
def test_what_is_accepted(phase: Phase, expected: tuple[When, ...]) -> None:
    assert tuple(reached(phase).when(event) for event in ASKED) == expected


@given(st.lists(st.sampled_from(Event)))
def test_no_schedule_leads_where_the_table_does_not(events: list[Event]) -> None:
    course = Course()
    waits: set[Event] = set()
    for event in events:
        before = course.phase
        if event in ASKED:
            when = course.when(event)
            waits |= {event} if when is LATER else set()
            assert (when is NOW) == ((before, event) in TRANSITIONS)
        if (before, event) not in TRANSITIONS:
            with pytest.raises(ValueError, match="cannot happen"):
                course.enter(event)
            assert course.phase is before
            continue
        course.enter(event)
        assert before is not Phase.ENDING or course.is_ending
        assert {each for each in Event if course.waits(each)} == waits
        if course.phase is Phase.SERVING:
            first = Event.UPGRADE if Event.UPGRADE in waits else Event.RELOAD
            assert course.take_later() is (first if waits else None)
            waits.discard(first)
        elif course.phase is not Phase.RELOADING:
            assert course.take_later() is None


@pytest.mark.parametrize(
    ("phase", "asked", "end"),
    [
        (Phase.STARTING, Event.RELOAD, Event.STARTED),
        (Phase.STARTING, Event.UPGRADE, Event.STARTED),
        (Phase.RELOADING, Event.UPGRADE, Event.RELOADED),
        (Phase.UPGRADING, Event.RELOAD, Event.NOT_UPGRADED),
    ],
)
def test_what_waits_begins_once(phase: Phase, asked: Event, end: Event) -> None:
    course = reached(phase)
    assert [course.when(asked), course.when(asked)] == [LATER, LATER]
    assert course.take_later() is None
    course.enter(end)
    assert course.take_later() is asked
    assert course.take_later() is None


def test_an_upgrade_comes_before_a_reload_which_stays_for_its_failure() -> None:
    course = reached(Phase.STARTING)
    course.when(Event.RELOAD)
    course.when(Event.UPGRADE)
    course.enter(Event.STARTED)
    assert course.take_later() is Event.UPGRADE
    course.enter(Event.UPGRADE)
    assert course.waits(Event.RELOAD) and course.take_later() is None
    course.enter(Event.NOT_UPGRADED)
    assert course.take_later() is Event.RELOAD


def test_what_waits_does_not_begin_in_a_server_that_ends() -> None:
    course = reached(Phase.RELOADING)
    course.when(Event.UPGRADE)
    course.enter(Event.STOP)
    assert course.take_later() is None
