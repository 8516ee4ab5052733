"""Several handlers at the same time: what they share, and what they must not."""

from __future__ import annotations

import contextlib
import signal

import pytest

from support.client import Connection, Reply
from support.loops import LOOPS, Serving
from support.server import Server, Start

pytestmark = pytest.mark.slow

APP = "aio_meet.py"
MANY = 1000


def request(path: str, method: str = "GET") -> bytes:
    length = "Content-Length: 0\r\n" if method == "POST" else ""
    return f"{method} {path} HTTP/1.1\r\nHost: test\r\n{length}\r\n".encode()


def ask(server: Server, path: str) -> Reply:
    with server.connect() as client:
        return client.get(path)


def wait_for(server: Server, names: list[str]) -> None:
    """Ask until exactly these handlers wait."""
    with server.connect() as client:
        while client.get("/waiting").json()["names"] != sorted(names):
            pass


@pytest.mark.parametrize(
    ("how", "setter"),
    [
        ("event", "set"),
        ("event", "set-by-def"),
        ("queue", "set"),
        ("condition", "set"),
        ("lock", "set"),
    ],
)
def test_one_waits_for_another(serving: Serving, how: str, setter: str) -> None:
    server = serving(APP)
    with server.connect() as waiter:
        # Two on one connection: when the second gets a response, the first has begun to wait.
        waiter.send(request(f"/{how}/wait"))
        with server.connect() as other:
            assert other.get("/task").status == 200
            assert other.get(f"/{how}/{setter}").content == b"ok"
        assert waiter.read().content == b"set"


def test_each_that_waits_has_its_own_task(serving: Serving) -> None:
    server, names = serving(APP), [f"own{number}" for number in range(5)]
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(server.connect()) for _ in names]
        for name, client in zip(names, clients, strict=True):
            client.send(request(f"/hold/{name}"))
        wait_for(server, names)
        assert ask(server, "/waiting").json()["tasks"] == len(names)
        for name in reversed(names):
            assert ask(server, f"/release/{name}").content == b"ok"
        assert [client.read().content.decode() for client in clients] == names


@pytest.mark.parametrize("canceller", ["cancel", "cancel-by-def"])
def test_one_cancels_another(serving: Serving, canceller: str) -> None:
    server = serving(APP)
    with server.connect() as victim, server.connect() as stubborn:
        victim.send(request("/hold/victim"))
        stubborn.send(request("/hold-on/stubborn"))
        wait_for(server, ["stubborn", "victim"])
        assert ask(server, f"/{canceller}/victim").content == b"True"
        assert ask(server, f"/{canceller}/stubborn").content == b"True"
        assert victim.read().status == 500
        assert stubborn.read().content == b"not me"
        assert stubborn.get("/task").json() == [True]


def test_def_handlers_have_no_task(serving: Serving) -> None:
    paths = ["/task", "/no-task", "/turns/2", "/no-task", "/task", "/nowhere", "/task"] * 2
    with serving(APP).connect() as client:
        client.send(b"".join(map(request, paths)))
        for path in paths:
            reply = client.read()
            if path != "/nowhere" and "turns" not in path:
                assert (path, reply.json()) == (path, [path == "/task"])


@pytest.mark.parametrize("how", ["now", "later", "def"])
def test_contextvars_end_with_their_handler(serving: Serving, how: str) -> None:
    paths = [f"/variable/set/{how}", "/variable", "/variable/async"] * 2
    with serving(APP).connect() as client:
        for path in paths:
            client.get(path)
        client.send(b"".join(map(request, paths)))
        contents = [client.read().content for _ in paths]
    assert contents == [b"set by a handler", b"unset", b"unset"] * 2


@pytest.mark.parametrize("how", ["handler", "part"])
def test_streamed_responses_have_the_contextvars_of_their_handler(
    serving: Serving, how: str
) -> None:
    with serving(APP).connect() as client:
        for _ in range(2):
            assert client.get(f"/variable/stream/{how}").content == b"set by a handler"
            assert client.get("/variable").content == b"unset"


@pytest.mark.parametrize("handled", ["def", "async"])
@pytest.mark.parametrize("how", ["now", "later"])
def test_error_handlers_see_the_contextvars(serving: Serving, how: str, handled: str) -> None:
    with serving(APP).connect() as client:
        path = f"/variable/set-and-raise/{how}/{handled}"
        assert client.get(path).content == b"set by a handler"
        assert client.get("/variable").content == b"unset"


@pytest.mark.parametrize("how", ["now", "later"])
def test_odd_exceptions_end_nothing_but_their_handler(serving: Serving, how: str) -> None:
    server = serving(APP)
    assert ask(server, f"/odd/{how}").status == 500
    server.wait_line("Odd: " + how)
    assert ask(server, "/task").status == 200


def test_http_error_after_a_suspension(serving: Serving) -> None:
    assert ask(serving(APP), "/http-error").status == 418


def test_pipelined_responses_keep_their_order(serving: Serving) -> None:
    turns = [9, 0, 5, 1, 0, 7, 3, 2] * 8
    with serving(APP, "--pipelined-exchanges-max", "4").connect() as client:
        client.get("/most")
        client.send(b"".join(request(f"/turns/{number}") for number in turns))
        assert [int(client.read().content) for _ in turns] == turns
        assert 2 <= int(client.get("/most").content) <= 4


def test_unsafe_request_waits_for_those_before_it(serving: Serving) -> None:
    server = serving(APP)
    with server.connect() as client:
        paths = [request("/ordered/a"), request("/ordered/b"), request("/ordered/c", "POST")]
        client.send(b"".join(paths))
        wait_for(server, ["a", "b"])
        ask(server, "/release/b")
        wait_for(server, ["a"])
        assert ask(server, "/task").status == 200
        ask(server, "/release/a")
        assert [client.read().content for _ in paths] == [b"a", b"b", b"c"]
        happened = client.get("/order").json()
    assert happened == ["a began", "b began", "b ended", "a ended", "c began"]


def test_many_wait_at_the_same_time(serving: Serving) -> None:
    server, names = serving(APP), [f"many{number}" for number in range(MANY)]
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(server.connect()) for _ in names]
        for name, client in zip(names, clients, strict=True):
            client.send(request(f"/hold/{name}"))
        wait_for(server, names)
        assert ask(server, "/waiting").json()["tasks"] == MANY
        with server.connect() as client:
            for name in names:
                client.get(f"/release/{name}")
        assert [client.read().content.decode() for client in clients] == names


@pytest.mark.parametrize("how", ["hold", "hold-on"])
def test_handler_that_takes_too_long_is_cancelled(serving: Serving, how: str) -> None:
    server = serving(APP, "--handler-timeout-ms", "100")
    with server.connect() as client:
        client.send(request(f"/{how}/late"))
        reply = client.read()
        assert (reply.status, reply.is_last) == (503, True)
        assert client.is_closed()
    wait_for(server, [])
    assert ask(server, "/task").status == 200


@pytest.mark.parametrize("loop", LOOPS)
def test_debug_mode_has_nothing_to_say(start: Start, loop: str) -> None:
    server = start(APP, "--loop", loop, env={"PYTHONASYNCIODEBUG": "1"})
    with server.connect() as client:
        paths = ["/task", "/no-task", "/turns/2", "/queue/set", "/queue/wait", "/http-error"]
        client.send(b"".join(map(request, paths)))
        assert [client.read().status for _ in paths] == [200] * 5 + [418]
        hold_and_release(server, client)
    assert "Task was destroyed" not in stop(server)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("signals", [1, 2])
def test_stopping_with_suspended_handlers_is_silent(start: Start, loop: str, signals: int) -> None:
    graceful_ms = {1: "300", 2: "20000"}[signals]
    server = start(APP, "--loop", loop, "--graceful-timeout-ms", graceful_ms)
    with server.connect() as client:
        client.send(request("/hold/never"))
        wait_for(server, ["never"])
        if signals == 1:
            server.signal(signal.SIGINT)
        else:
            server.signal_twice()
        server.wait()
    assert "Traceback" not in server.errors
    assert "Task was destroyed" not in server.errors


def hold_and_release(server: Server, client: Connection) -> None:
    client.send(request("/hold/one"))
    wait_for(server, ["one"])
    ask(server, "/release/one")
    assert client.read().content == b"one"


def stop(server: Server) -> str:
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert "Traceback" not in server.errors
    return server.errors
