"""Applications that fail, and clients that go (points 27 and 28)."""

from __future__ import annotations

import pytest

from asgi.held import Seen, release
from support.client import Connection
from support.peer import end
from support.request import head
from support.server import Server
from support.waiting import wait_until

pytestmark = pytest.mark.slow

APP = "asgi/sending.py"


def logged(server: Server, where: str) -> int:
    """Count the errors logged for a request, when all of them must have been."""
    with server.connect() as client:
        client.get("/raises/now/marker")
    server.wait_line("/raises/now/marker: the application")
    return sum(f"/raises/{where}: the application" in line for line in server.lines)


WHERE = ("now", "later", "silent", "later-silent", "started", "later-started", "started-silent")


@pytest.mark.parametrize("where", WHERE)
def test_27_a_failure_before_the_response_is_500_logged_once_and_the_connection_goes_on(
    server: Server, client: Connection, where: str
) -> None:
    before = logged(server, where)
    client.send(head("GET", f"/raises/{where}") + head("GET", "/sized/5"))
    assert client.read().status == 500
    assert client.read().content == b"abcde"
    assert logged(server, where) == before + 1


CUT = ("begun", "later-begun", "begun-silent", "later-begun-silent")


@pytest.mark.parametrize("where", CUT)
def test_27_a_failure_inside_a_response_truncates_it_and_is_logged_once(
    server: Server, client: Connection, where: str
) -> None:
    before = logged(server, where)
    client.send(head("GET", f"/raises/{where}"))
    assert client.read_head().status == 200
    assert client.read_to_end() == b"4\r\npart\r\n"
    assert logged(server, where) == before + 1


@pytest.mark.parametrize("where", ["responded", "later-responded"])
def test_27_a_failure_after_a_response_is_logged_once_and_changes_nothing(
    server: Server, client: Connection, where: str
) -> None:
    before = logged(server, where)
    client.send(head("GET", f"/raises/{where}") * 2)
    assert [client.read().content for _ in range(2)] == [b"responded"] * 2
    assert logged(server, where) == before + 2


def test_27_the_log_names_the_error_and_where_it_was_raised(server: Server) -> None:
    with server.connect() as client:
        client.get("/raises/now")
    server.wait_line("GET /raises/now: the application")
    server.wait_line("Traceback")
    server.wait_line("sending.py")
    server.wait_line("RuntimeError: on purpose")


ESCAPES = ("interrupts", "later-interrupts", "exits", "later-exits")


@pytest.mark.parametrize("where", ESCAPES)
def test_27_an_exception_that_would_end_a_program_fails_its_request_only(
    server: Server, client: Connection, where: str
) -> None:
    before = logged(server, where)
    pids = server.workers()
    with server.connect() as other:
        other.send(head("GET", "/held"))
        client.send(head("GET", f"/raises/{where}") + head("GET", "/sized/5"))
        assert client.read().status == 500
        assert client.read().content == b"abcde"
        release(server)
        assert other.read().content == b"content"
    assert logged(server, where) == before + 1
    assert server.workers() == pids


def test_27_an_application_that_cancels_itself_is_500(client: Connection) -> None:
    client.send(head("GET", "/raises/cancels") + head("GET", "/sized/5"))
    assert client.read().status == 500
    assert client.read().content == b"abcde"


GONE = ("catches", "raises", "translates", "translates%20silently", "groups")


@pytest.mark.parametrize("way", GONE)
def test_28_send_to_a_client_that_has_gone_raises_an_oserror_that_is_not_logged(
    server: Server, seen: Seen, way: str
) -> None:
    left = seen("left")
    with server.connect() as client:
        client.send(head("GET", f"/gone/{way}"))
        assert client.read_head().status == 200
    wait_until(lambda: seen("left") == left + 1)
    for name in ("gone", "gone again"):
        assert {"ClientDisconnected", "OSError"} <= set(seen(name))
    logged(server, "nothing")
    assert f"GET /gone/{way}" not in "".join(server.lines)


def test_28_what_an_application_does_wrong_about_it_is_logged(server: Server) -> None:
    with server.connect() as client:
        client.send(head("GET", "/gone/stumbles"))
        assert client.read_head().status == 200
    server.wait_line("GET /gone/stumbles: the application raised")
    server.wait_line("KeyError: 'of its own'")


def test_28_a_whole_response_to_a_client_that_has_gone_is_ignored(
    server: Server, seen: Seen
) -> None:
    client = server.connect()
    client.send(head("GET", "/late"))
    wait_until(lambda: seen("waiting") == 1)
    end(client, "reset")
    wait_until(lambda: seen("late") == "ignored")
    logged(server, "nothing")
    assert "GET /late" not in "".join(server.lines)
