"""The test client itself."""

import asyncio
import http.client
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bolide.errors import ConfigError
from bolide.web import App, Request, Response, WebSocket
from bolide.web.testclient import TestClient


def mirror() -> App:
    """Make an application that responds with what it was asked."""
    app = App()

    @app.route("/{rest:path}", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
    def handler(request: Request) -> dict[str, Any]:
        return {
            "method": request.method,
            "target": request.raw_path.decode(),
            "query": request.query.multi_items(),
            "headers": request.field_lines(),
            "content": request.text(),
        }

    return app


def join_servers() -> None:
    """Wait for the threads of servers."""
    for thread in threading.enumerate():
        if thread.name == "bolide-test-server":
            thread.join(10)
            assert not thread.is_alive()


def headers_of(shown: dict[str, Any]) -> dict[str, str]:
    return dict(shown["headers"])


@pytest.mark.parametrize("method", ["get", "post", "put", "patch", "delete", "options"])
def test_each_method_has_a_call(method: str) -> None:
    with TestClient(mirror()) as client:
        assert getattr(client, method)("/a").json()["method"] == method.upper()


def test_paths_and_queries_are_encoded() -> None:
    with TestClient(mirror()) as client:
        shown = client.get("/a b/é%20?a=1", params=[("b", "2 3"), ("b", "&")]).json()
    assert shown["target"] == "/a%20b/%C3%A9%20"
    assert shown["query"] == [["a", "1"], ["b", "2 3"], ["b", "&"]]


@pytest.mark.parametrize("path", ["", "items/1", "?page=2"])
def test_a_path_without_a_slash_is_refused(path: str) -> None:
    with TestClient(App()) as client, pytest.raises(ValueError, match="must begin with a slash"):
        client.get(path)


def test_headers_and_cookies_are_sent() -> None:
    with TestClient(mirror()) as client:
        headers = {"Host": "example.org"}
        sent = headers_of(client.get("/", headers=headers, cookies={"a": "1", "b": "2"}).json())
    assert sent["host"] == "example.org"
    assert sent["cookie"] == "a=1; b=2"


def test_a_field_may_have_several_lines() -> None:
    lines = [("X-A", "1"), ("Cookie", "a=1"), ("x-a", "2"), ("cookie", "b=2")]
    app = mirror()

    @app.websocket("/ws")
    async def handler(ws: WebSocket) -> None:
        await ws.send("|".join(f"{name}={value}" for name, value in ws.field_lines()))

    with TestClient(app) as client:
        sent = client.get("/", headers=lines, cookies={"c": "3"}).json()["headers"]
        with client.websocket("/ws", headers=lines) as websocket:
            opened = str(websocket.receive())
    assert [line for line in sent if line[0] in ("x-a", "cookie")] == [
        ["x-a", "1"],
        ["x-a", "2"],
        ["cookie", "a=1; b=2; c=3"],
    ]
    assert opened.endswith("|x-a=1|x-a=2|cookie=a=1; b=2")


def test_json_is_sent_with_its_type() -> None:
    with TestClient(mirror()) as client:
        shown = client.post("/", json={"a": None}).json()
        other = client.post("/", json=1, headers={"Content-Type": "a/b"}).json()
    assert shown["content"] == '{"a": null}'
    assert headers_of(shown)["content-type"] == "application/json"
    assert headers_of(other)["content-type"] == "a/b"


def test_content_is_sent_as_it_is() -> None:
    def parts() -> Iterator[bytes]:
        yield b"a"
        yield b"b"

    with TestClient(mirror()) as client:
        assert client.post("/", content=b"a").json()["content"] == "a"
        assert client.post("/", content="é").json()["content"] == "é"
        chunked = client.post("/", content=parts()).json()
    assert chunked["content"] == "ab"
    assert headers_of(chunked)["transfer-encoding"] == "chunked"


def test_json_and_content_exclude_each_other() -> None:
    with TestClient(mirror()) as client, pytest.raises(TypeError, match="json or content"):
        client.post("/", json=1, content=b"1")


def test_a_result_has_status_headers_and_content() -> None:
    app = App()
    app.get("/")(lambda request: Response(b"\xe9", 201, {"X-A": "1"}, "text/plain; charset=latin1"))
    with TestClient(app) as client:
        result = client.get("/")
    assert (result.status, result.content, result.text) == (201, b"\xe9", "é")
    assert result.headers["x-a"] == "1"
    with pytest.raises(ValueError, match="codec can't decode"):
        result.json()


def test_redirections_are_not_followed() -> None:
    app = App()
    app.get("/")(lambda request: Response.redirect("/é"))
    with TestClient(app) as client:
        result = client.get("/")
    assert (result.status, result.headers["location"]) == (302, "/%C3%A9")


def test_a_connection_carries_raw_bytes_and_several_requests() -> None:
    with TestClient(mirror()) as client, client.connect() as sock:
        for _ in range(2):
            sock.sendall(b"GET /a HTTP/1.1\r\nhost: b\r\n\r\n")
            response = http.client.HTTPResponse(sock)
            response.begin()
            assert response.status == 200
            assert b'"target":"/a"' in response.read()


def test_calls_may_come_from_several_threads() -> None:
    statuses: list[int] = []
    app = App()
    meeting = threading.Barrier(4, timeout=10)

    def call(client: TestClient) -> None:
        meeting.wait()
        statuses.append(client.get("/").status)

    app.get("/")(lambda request: "")
    with TestClient(app) as client:
        threads = [threading.Thread(target=call, args=(client,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert statuses == [200] * 4


def test_it_works_only_inside_with() -> None:
    client = TestClient(mirror())
    with pytest.raises(RuntimeError, match="inside `with TestClient"):
        client.get("/")
    with client:
        assert client.get("/").status == 200
        with pytest.raises(RuntimeError, match="entered already"):
            client.__enter__()
    with pytest.raises(RuntimeError, match="inside `with TestClient"):
        client.get("/")


def test_one_application_can_be_entered_again() -> None:
    app = mirror()
    for _ in range(3):
        with TestClient(app) as client:
            assert client.get("/").status == 200


def test_no_thread_is_left() -> None:
    before = threading.active_count()
    with TestClient(mirror()) as client:
        client.get("/")
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"no_such_setting": 1}, "^no_such_setting=: no such option"),
        ({"request_id": "a b"}, "^request_id='a b' "),
        ({"websocket_compression_level": 10}, "^websocket_compression_level=10 "),
        ({"body_bytes_max": "many"}, "^body_bytes_max='many' "),
    ],
)
def test_a_wrong_setting_is_refused(options: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        TestClient(mirror(), options=options)


def test_settings_are_those_of_the_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bolide.toml").write_text("server_header = false\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BOLIDE_SERVER_HEADER", "off")
    options = {"request_id": "on", "request_id_response": True, "memory_max": "64M"}
    with TestClient(mirror(), options=options | {"websocket_origins": "same"}) as client:
        headers = client.get("/").headers
    assert len(headers["x-request-id"]) > 10
    assert headers["server"] == "bolide"


@pytest.mark.parametrize("when", ["at startup", "while it is served"])
def test_bounds_of_routes_that_are_added_late_hold(when: str) -> None:
    app = App()

    def count(request: Request) -> str:
        return str(len(request.body()))

    async def late(request: Request) -> None:
        await asyncio.Event().wait()

    def add() -> None:
        app.add_route("/small", count, ["POST"], body_bytes_max=10)
        app.add_route("/late", late, handler_timeout_ms=50)

    app.add_route("/usual", count, ["POST"])
    if when == "at startup":
        app.on_startup(add)
    with TestClient(app) as client:
        if when != "at startup":
            add()
        assert client.post("/small", content=b"x" * 10).text == "10"
        assert client.post("/small", content=b"x" * 11).status == 413
        assert client.post("/usual", content=b"x" * 11).text == "11"
        assert client.get("/late").status == 503


def test_the_shutdown_follows_the_last_handler() -> None:
    steps: list[str] = []
    app = App()
    started = threading.Event()

    @app.get("/{how}")
    async def handler(request: Request, how: str) -> str:
        try:
            started.set()
            await asyncio.sleep(0.01 if how == "short" else 3600)
            steps.append("ended")
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            steps.append("cancelled")
            raise
        return ""

    app.on_shutdown(lambda: steps.append("down"))
    for how in ("short", "long"):
        with TestClient(app) as client, client.connect() as sock:
            sock.sendall(f"GET /{how} HTTP/1.1\r\nhost: a\r\n\r\n".encode())
            assert started.wait(10)
            started.clear()
    assert steps == ["ended", "down", "cancelled", "down"]


def test_a_connection_that_is_not_accepted_is_a_timeout() -> None:
    app = App()
    blocks, released = threading.Event(), threading.Event()

    @app.get("/")
    def handler(request: Request) -> str:
        blocks.set()
        released.wait(10)
        return "released"

    with TestClient(app, timeout_s=0.05) as client:
        with client.connect() as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            assert blocks.wait(10)
            with pytest.raises(TimeoutError, match=r"^no connection was accepted within 0.05 s"):
                client.connect()
            released.set()
            sock.settimeout(10)
            assert sock.recv(65536).endswith(b"released")
        assert client.get("/").text == "released"


def test_interim_responses_are_not_the_response() -> None:
    async def hinting(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        for link in (b"</a.css>", b"</b.css>"):
            await send({"type": "http.response.early_hint", "links": [link]})
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-a", b"1")]})
        await send({"type": "http.response.body", "body": b"content"})

    app = App()
    app.mount("/", hinting)
    with TestClient(app) as client:
        result = client.get("/")
    assert (result.status, result.text, result.headers["x-a"]) == (200, "content", "1")
    assert "link" not in result.headers


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_startup_that_does_not_end_is_cancelled(goes_on: bool) -> None:
    steps: list[str] = []
    app = App()

    @app.on_startup
    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            steps.append("cancelled")
            if not goes_on:
                raise

    app.on_shutdown(lambda: steps.append("down"))
    client = TestClient(app, timeout_s=0.05)
    with pytest.raises(TimeoutError, match=r"^the startup did not end within 0\.05 s$"):
        client.__enter__()
    join_servers()
    assert steps == (["cancelled", "down"] if goes_on else ["cancelled"])


def test_an_interrupt_ends_a_startup(monkeypatch: pytest.MonkeyPatch) -> None:
    cancelled = threading.Event()
    started = threading.Event()
    app = App()

    @app.on_startup
    async def wait() -> None:
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    def interrupted(future: Any, timeout: float | None = None) -> None:
        assert started.wait(10)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("concurrent.futures.Future.result", interrupted)
        TestClient(app).__enter__()
    assert cancelled.wait(10)
    join_servers()


def test_an_own_timeout_of_a_startup_is_raised_as_it_is() -> None:
    app = App()

    @app.on_startup
    async def wait() -> None:
        raise TimeoutError("ours")

    with pytest.raises(TimeoutError, match="^ours$"):
        TestClient(app).__enter__()


def test_a_shutdown_that_does_not_end_is_cancelled() -> None:
    steps: list[str] = []
    app = App()

    @app.on_shutdown
    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            steps.append("cancelled")
            raise

    with pytest.raises(TimeoutError, match=r"^the shutdown did not end within 0\.05 s$"):
        with TestClient(app, timeout_s=0.05):
            pass
    join_servers()
    assert steps == ["cancelled"]


def test_what_ends_the_server_is_raised() -> None:
    tasks: list[asyncio.Task[None]] = []
    app = App()

    async def leave() -> None:
        raise SystemExit("ours")

    @app.get("/")
    async def handler(request: Request) -> str:
        tasks.append(asyncio.create_task(leave()))
        return ""

    with pytest.raises(SystemExit, match="^ours$"), TestClient(app) as client:
        with client.connect() as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            assert sock.recv(65536).startswith(b"HTTP/1.1 200")
            assert sock.recv(65536) == b""
        join_servers()
        assert isinstance(tasks[0].exception(), SystemExit)
        with pytest.raises(RuntimeError, match="^the server has ended$"):
            client.get("/")


def test_an_error_in_a_test_still_ends_the_server() -> None:
    steps: list[str] = []
    app = mirror()
    app.on_shutdown(lambda: steps.append("down"))
    with pytest.raises(KeyError, match="ours"), TestClient(app):
        raise KeyError("ours")
    assert steps == ["down"]


def test_another_frameworks_application_is_refused() -> None:
    with pytest.raises(TypeError) as caught:
        TestClient(dict())  # type: ignore[arg-type]
    assert str(caught.value) == (
        "TestClient calls a bolide.App, not a builtins.dict; use the test client of its framework"
    )
