"""WebSockets of a native application, with the test client."""

import base64
import hashlib
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from bolide import App, TestClient, WebSocket, WebSocketClosed
from bolide.errors import RegistrationError, SignatureError
from bolide.web import foreign
from bolide.web.testclient import WebSocketRefused
from bolide.web.testsocket import TestSocket
from support.waiting import wait_until

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455 §1.3

app = App()


@app.websocket("/echo/{times:int}")
async def echo(ws: WebSocket, times: int) -> None:
    await ws.accept(ws.subprotocols[0] if ws.subprotocols else None, {"X-Own": "1"})
    async for message in ws:
        for _ in range(times):
            await ws.send(message)


@app.websocket("/end")
async def end(ws: WebSocket) -> None:
    await ws.send(ws.query["text"] + ws.cookies["name"])
    await ws.close(4001, "enough")


@app.websocket("/refuse")
async def refuse(ws: WebSocket) -> None:
    await ws.reject(401, "no", headers={"X-Own": "2"})


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(app) as client:
        yield client


@pytest.mark.parametrize("length", [0, 1, 125, 126, 65_535, 65_536, 300_000])
def test_messages_come_back(client: TestClient, length: int) -> None:
    with client.websocket("/echo/2") as ws:
        for message in ("\u20ac" * length, b"\xff" * length):
            ws.send(message)
            assert [ws.receive(), ws.receive()] == [message, message]


def test_the_response_is_visible(client: TestClient) -> None:
    with client.websocket("/echo/1", subprotocols=["a", "b"]) as ws:
        assert (ws.subprotocol, ws.headers["x-own"]) == ("a", "1")
    with client.websocket("/echo/1") as ws:
        assert ws.subprotocol is None


def test_the_end_is_an_exception(client: TestClient) -> None:
    with client.websocket("/end", params={"text": "t"}, cookies={"name": "n"}) as ws:
        assert ws.receive() == "tn"
        with pytest.raises(WebSocketClosed) as caught:
            ws.receive()
        assert (caught.value.code, caught.value.reason) == (4001, "enough")
        with pytest.raises(WebSocketClosed):
            ws.send("late")


def test_after_the_own_close_receiving_says_that_it_is_closed(client: TestClient) -> None:
    with client.websocket("/echo/1") as ws:
        ws.close(4002, "done")
        for use in (ws.receive, lambda: ws.send("late")):
            with pytest.raises(WebSocketClosed) as caught:
                use()
            assert (caught.value.code, caught.value.reason) == (4002, "done")


def test_after_the_servers_close_every_use_has_its_code(client: TestClient) -> None:
    with client.websocket("/end", params={"text": "t"}, cookies={"name": "n"}) as ws:
        assert ws.receive() == "tn"
        for use in (ws.receive, ws.receive, lambda: ws.send("late")):
            with pytest.raises(WebSocketClosed) as caught:
                use()
            assert (caught.value.code, caught.value.reason) == (4001, "enough")


class Counting(socket.socket):
    """A socket that counts what it is asked for."""

    receptions = 0

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        self.receptions += 1
        return super().recv(bufsize, flags)


def accept_value(far: socket.socket) -> str:
    """Receive a handshake; return the value of Sec-WebSocket-Accept for it."""
    key = re.search(rb"sec-websocket-key: (\S+)", far.recv(65_536))
    assert key
    digest = hashlib.sha1(key[1] + GUID, usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


@pytest.mark.parametrize("status", ["101 Switching Protocols", "403 Forbidden"])
def test_a_head_in_parts_is_waited_for(status: str) -> None:
    near, far = socket.socketpair()
    sock = Counting(fileno=near.detach())

    def respond() -> None:
        proof = accept_value(far)
        far.sendall(f"HTTP/1.1 {status}\r\n".encode())
        wait_until(lambda: sock.receptions >= 2)  # it has the first part, and asks for more
        content = "\x81\x02hi" if status.startswith("101") else "no"
        fields = f"Sec-WebSocket-Accept: {proof}\r\nContent-Length: 2\r\n"
        far.sendall(f"{fields}\r\n{content}".encode("latin-1"))

    with far, sock, ThreadPoolExecutor(1) as pool:
        responding = pool.submit(respond)
        if status.startswith("101"):
            assert TestSocket(sock, "/", {}).receive() == "hi"
        else:
            with pytest.raises(WebSocketRefused) as caught:
                TestSocket(sock, "/", {})
            assert (caught.value.result.status, caught.value.result.text) == (403, "no")
        responding.result()
        assert sock.receptions == 2


def test_a_timeout_within_a_message_loses_nothing() -> None:
    near, far = socket.socketpair()

    def respond() -> None:
        head = f"HTTP/1.1 101 X\r\nSec-WebSocket-Accept: {accept_value(far)}\r\n\r\n"
        far.sendall(head.encode())

    # Two fragments with a ping between them, and lengths of both forms.
    octets = b"\x01\x02he\x89\x01p\x80\x7e\x00\x03llo" + b"\x82\x01x"
    with far, near, ThreadPoolExecutor(1) as pool:
        responding = pool.submit(respond)
        ws = TestSocket(near, "/", {})
        responding.result()
        near.settimeout(0.001)
        received: list[str | bytes] = []
        for octet in octets:
            far.sendall(bytes([octet]))
            try:
                received.append(ws.receive())
            except TimeoutError:
                continue
        assert received == ["hello", b"x"]


def test_a_refusal_has_its_response(client: TestClient) -> None:
    with pytest.raises(WebSocketRefused) as caught:
        client.websocket("/refuse")
    result = caught.value.result
    assert (result.status, result.text, result.headers["x-own"]) == (401, "no", "2")
    with pytest.raises(WebSocketRefused, match="404"):
        client.websocket("/nowhere")


def test_a_connection_that_ends_has_the_code_1006(client: TestClient) -> None:
    with client.websocket("/echo/1") as ws:
        ws._sock.shutdown(socket.SHUT_WR)
        with pytest.raises(WebSocketClosed) as caught:
            while True:
                ws.receive()
        assert caught.value.code == 1006


def test_publishing_without_a_server_does_nothing() -> None:
    App().publish("topic", "message")


@pytest.mark.parametrize("arguments", [(b"topic", "message"), ("topic", 1), ("topic", None)])
def test_what_cannot_be_published(arguments: tuple[str, str]) -> None:
    with pytest.raises(TypeError):
        App().publish(*arguments)


def test_a_handler_must_be_async() -> None:
    with pytest.raises(SignatureError, match="is an async function without yield"):

        @App().websocket("/")  # type: ignore[type-var]
        def handler(ws: WebSocket) -> None: ...

    with pytest.raises(SignatureError, match="is an async function without yield"):

        @App().websocket("/")
        async def generator(ws: WebSocket):  # type: ignore[no-untyped-def]
            yield ""


def test_a_route_exists_once() -> None:
    own = App()

    async def handler(ws: WebSocket) -> None: ...

    own.add_websocket_route("/{a}", handler)
    with pytest.raises(RegistrationError, match=r"WebSocket /\{b\} is taken already, by /\{a\} of"):
        own.websocket("/{b}")(handler)
    with pytest.raises(RegistrationError, match="needs a path"):
        own.websocket(handler)  # type: ignore[arg-type]
    with pytest.raises(SignatureError, match="takes 'name', which the pattern / does not have"):

        @own.websocket("/")
        async def other(ws: WebSocket, name: str) -> None: ...


@pytest.mark.parametrize("name", foreign.WEBSOCKET)
def test_names_of_others_say_what_to_write_instead(name: str) -> None:
    with pytest.raises(AttributeError, match=f"WebSocket has no {name}: use "):
        getattr(WebSocket(), name)


def test_an_object_of_our_own_is_no_websocket() -> None:
    with pytest.raises(RuntimeError, match="only the server makes WebSockets"):
        WebSocket().receive()


def test_of_mounted_applications_those_of_asgi_get_handshakes() -> None:
    def wsgi(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("403 Forbidden", [])
        return [environ["PATH_INFO"].encode()]

    async def asgi(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close"})

    app = App()
    app.mount("/wsgi", wsgi)
    app.mount("/asgi", asgi)
    with TestClient(app) as client:
        for path, content in [("/wsgi/x", b"/x"), ("/asgi/x", b"")]:
            with pytest.raises(WebSocketRefused, match="the handshake got 403") as refused:
                client.websocket(path)
            assert refused.value.result.content == content
