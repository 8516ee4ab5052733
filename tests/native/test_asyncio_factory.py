"""Tasks that the application has made by a factory, by a class in Python, or beside other work."""

from __future__ import annotations

import json

import pytest

from native.asking import ask, told
from support.loops import LOOPS
from support.server import Start

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("loop", LOOPS)
def test_a_factory_makes_the_tasks_of_requests(start: Start, interface: str, loop: str) -> None:
    server = start(f"tasks/factory.py:{interface}", "--loop", loop)
    usual = told(server, "name")
    assert not usual.startswith("made")
    told(server, "set_factory")
    assert [told(server, "name") for _ in range(3)] == ["made 0", "made 1", "made 2"]
    made = json.loads(told(server, "tell_made"))
    assert len(made) == 4 and all(name for name in made)
    assert told(server, "gives_way") == "ok"
    told(server, "unset_factory")
    assert not told(server, "name").startswith("made")


@pytest.mark.parametrize("loop", LOOPS)
def test_a_factory_that_raises_fails_one_request(start: Start, interface: str, loop: str) -> None:
    server = start(f"tasks/factory.py:{interface}", "--loop", loop)
    told(server, "fail_to_make")
    (reply,) = ask(server, "name")
    assert reply.status == 500
    server.wait_line("ValueError: no tasks today")
    assert told(server, "name")


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("how", ["replaced", "factory"])
def test_tasks_in_python(start: Start, interface: str, loop: str, how: str) -> None:
    server = start(f"tasks/pytask.py:{interface}", "--loop", loop, env={"TASKS_HOW": how})
    # uvloop makes the tasks of the class in C that it has imported, unless there is a factory.
    assert told(server, "kind") == told(server, "kind_later")
    if loop == "asyncio" or how == "factory":
        assert told(server, "kind") == "True"


def test_only_our_own_step_is_taken_from_the_loop(start: Start, interface: str) -> None:
    server = start(f"tasks/factory.py:{interface}", "--eager-tasks", "on")
    told(server, "queue_beside")
    for _ in range(3):
        replies = ask(server, "gives_way", "gives_way", "name")
        assert [reply.status for reply in replies] == [200] * 3
    is_queued, is_left = json.loads(told(server, "tell_queued"))
    assert is_queued and is_left <= 2
