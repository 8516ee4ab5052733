"""Handlers that run the loop they run in (nest_asyncio), native and over ASGI."""

from __future__ import annotations

import pytest

from native.asking import ask, request, text_of
from support.server import Start

pytestmark = pytest.mark.slow

WAYS = ("nested", "nested_later", "nested_before", "nested_run")


@pytest.mark.parametrize("options", [(), ("--eager-tasks", "off")])
@pytest.mark.parametrize("when", ["import", "startup", "handler"])
@pytest.mark.parametrize("way", WAYS)
def test_the_loop_runs_inside_a_handler(
    start: Start, interface: str, way: str, when: str, options: tuple[str, ...]
) -> None:
    server = start(f"tasks/nested.py:{interface}", *options, env={"APPLY_WHEN": when})
    # The turn of the loop in which it is made re-entrant has counted its callbacks already: where
    # there are more, it ends in an IndexError, on any server.
    assert text_of(server, way) == "nested"
    replies = ask(server, way, way, "opens")
    assert [reply.content.decode() for reply in replies] == ["nested", "nested", "nobody"]
    for again in WAYS:
        assert text_of(server, again) == "nested"


@pytest.mark.parametrize("when", ["import", "startup", "handler"])
def test_requests_are_served_while_the_loop_runs_inside(
    start: Start, interface: str, when: str
) -> None:
    server = start(f"tasks/nested.py:{interface}", env={"APPLY_WHEN": when})
    with server.connect() as waiting:
        waiting.send(request("waits"))
        # CPython 3.14 cannot run a task inside another if it was made before nest_asyncio was
        # applied, so the second request is sent after that.
        server.wait_line("waiting at the gate")
        assert text_of(server, "opens") == "opened"
        assert waiting.read().content == b"passed"
