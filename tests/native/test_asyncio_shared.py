"""What requests see of each other's tasks and of their own, native and over ASGI."""

from __future__ import annotations

import json
import os

import pytest

from native.asking import ask, request, text_of
from support.client import Connection
from support.loops import LOOPS, Serving
from support.server import Server, Start

pytestmark = pytest.mark.slow

TOGETHER = 3
"""Requests that one connection may have under way at once."""
BLOCKING = 24
EAGER = os.environ.get("BOLIDE_EAGER_TASKS") != "off"


@pytest.mark.parametrize("options", [(), ("--eager-tasks", "off")])
@pytest.mark.parametrize("what", ["task", "future", "shielded", "gathered"])
def test_requests_of_one_pass_wait_for_the_same(
    serving: Serving, interface: str, what: str, options: tuple[str, ...]
) -> None:
    server = serving(f"tasks/shared.py:{interface}", *options)
    for _ in range(2):
        replies = ask(server, *[what] * TOGETHER)
        assert [reply.content.decode() for reply in replies] == ["shared"] * TOGETHER


def test_cancelling_before_a_shared_task_is_waited_for(serving: Serving, interface: str) -> None:
    server = serving(f"tasks/shared.py:{interface}")
    assert [reply.content for reply in ask(server, "cancels", "cancels")] == [b"True"] * 2


def test_a_future_waited_for_looks_as_in_asyncio(serving: Serving, interface: str) -> None:
    server = serving(f"tasks/shared.py:{interface}")
    replies = ask(server, "future", "blocking_flag", "future")
    assert [reply.content for reply in replies] == [b"shared", b"False", b"shared"]


@pytest.mark.parametrize("options", [(), ("--eager-tasks", "off")])
def test_a_debugger_sees_the_stack_of_a_request(
    serving: Serving, interface: str, options: tuple[str, ...]
) -> None:
    server = serving(f"tasks/shared.py:{interface}", *options)
    first, later = json.loads(text_of(server, "own_task"))
    outermost = {"app": "handler", "asgi": "asgi"}[interface]
    is_ordinary = not EAGER or bool(options)
    if is_ordinary and interface == "asgi":
        outermost = "_run_asgi"
    for seen in (first, later):
        assert seen["frames"][-1] == seen["code"] == outermost
        assert seen["name"].endswith(outermost)
        assert seen["running"]
        assert f" in {outermost}\n" in seen["printed"]
        assert f"{outermost}() running at " in seen["repr"]
    # Registering a task costs more than most requests: one that is lent is not, until it suspends.
    assert (first["registered"], later["registered"]) == (is_ordinary, True)


def test_a_debugger_sees_where_another_request_waits(serving: Serving, interface: str) -> None:
    server = serving(f"tasks/shared.py:{interface}")
    with server.connect() as client:
        client.send(request("waits"))
        while not (text := text_of(server, "look")):
            pass
        assert client.read().content == b"seen"
    seen = json.loads(text)
    assert seen["chain"][-2:] == ["_outcome", "waits"]
    assert "running at " in seen["repr"] and "wait_for=<Future pending" in seen["repr"]


def test_ordinary_tasks_have_names_of_their_own(serving: Serving, interface: str) -> None:
    server = serving(f"tasks/shared.py:{interface}", "--eager-tasks", "off")
    names = {reply.content for reply in ask(server, *["task_name"] * 3)}
    assert len(names) == 3


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("how", ["environment", "handler"])
def test_debug_mode_reports_a_slow_first_step(
    start: Start, interface: str, loop: str, how: str
) -> None:
    env = {"PYTHONASYNCIODEBUG": "1"} if how == "environment" else {}
    server = start(f"tasks/shared.py:{interface}", "--loop", loop, env=env)
    paths = ["slow_first_step"] if how == "environment" else ["set_debug", "slow_first_step"]
    if EAGER:
        replies = ask(server, *paths)
    else:  # uvloop looks at its mode once for all the tasks that it starts in a turn
        replies = [ask(server, path)[0] for path in paths]
    assert replies[-1].content == b"slow"
    server.wait_line(r"Executing <.* took (?!0\.0)\d+\.\d+ seconds")  # 0.15, or more under load


@pytest.mark.parametrize("loop", LOOPS)
def test_a_callback_does_not_wait_for_a_whole_pass(start: Start, interface: str, loop: str) -> None:
    """Calls of 3 ms each: some 10 ms of them, and the one under way, may come before it.

    Requests with ordinary tasks are callbacks themselves, and have their turn in asyncio's order.
    """
    server = start(f"tasks/shared.py:{interface}", "--loop", loop, "--eager-tasks", "on")
    clients = [server.connect() for _ in range(BLOCKING)]
    try:
        for _ in range(2):  # the first time shows the server that calls are slow
            begun = run_together(server, clients)
    finally:
        for client in clients:
            client.socket.close()
    assert 0 <= begun <= 5


def run_together(server: Server, clients: list[Connection]) -> int:
    """Have all ask while one call keeps the server; give how many began before the callback."""
    for client in clients:
        assert client.get("/task_name").status == 200
    with server.connect() as first:
        first.send(request("blocks_long"))
        for index, client in enumerate(clients):
            client.send(request("blocks" if index else "queue_callback"))
        assert [client.read().status for client in clients] == [200] * len(clients)
        assert first.read().status == 200
    return int(text_of(server, "before_callback"))
