"""Tasks that the application has made by a factory, by a class in Python, or beside other work."""

from __future__ import annotations

import json

import pytest

from native.asking import ask, text_of
from support.loops import LOOPS
from support.server import Start

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("loop", LOOPS)
def test_a_factory_makes_the_tasks_of_requests(start: Start, interface: str, loop: str) -> None:
    server = start(f"tasks/factory.py:{interface}", "--loop", loop)
    usual = text_of(server, "name")
    assert not usual.startswith("made")
    text_of(server, "set_factory")
    assert [text_of(server, "name") for _ in range(3)] == ["made 0", "made 1", "made 2"]
    made = json.loads(text_of(server, "show_made"))
    assert len(made) == 4 and all(name for name in made)
    assert text_of(server, "gives_way") == "ok"
    text_of(server, "unset_factory")
    assert not text_of(server, "name").startswith("made")


@pytest.mark.parametrize("loop", LOOPS)
def test_a_factory_that_raises_fails_one_request(start: Start, interface: str, loop: str) -> None:
    server = start(f"tasks/factory.py:{interface}", "--loop", loop)
    text_of(server, "fail_to_make")
    (reply,) = ask(server, "name")
    assert reply.status == 500
    server.wait_line("ValueError: no tasks today")
    assert text_of(server, "name")


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("how", ["replaced", "factory"])
def test_tasks_in_python(start: Start, interface: str, loop: str, how: str) -> None:
    server = start(f"tasks/pytask.py:{interface}", "--loop", loop, env={"TASKS_HOW": how})
    # uvloop makes the tasks of the class in C that it has imported, unless there is a factory.
    assert text_of(server, "kind") == text_of(server, "kind_later")
    if loop == "asyncio" or how == "factory":
        assert text_of(server, "kind") == "True"


def test_only_our_own_step_is_taken_from_the_loop(start: Start, interface: str) -> None:
    server = start(f"tasks/factory.py:{interface}", "--eager-tasks", "on")
    text_of(server, "queue_beside")
    for _ in range(3):
        replies = ask(server, "gives_way", "gives_way", "name")
        assert [reply.status for reply in replies] == [200] * 3
    is_queued, is_left = json.loads(text_of(server, "show_queued"))
    assert is_queued and is_left <= 2
