"""WebSockets of a native application, with the test client."""

import socket
from collections.abc import Iterator

import pytest

from bolide import App, TestClient, WebSocket, WebSocketClosed
from bolide.errors import RegistrationError, SignatureError
from bolide.web import foreign
from bolide.web.testclient import WebSocketRefused

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

        @App().websocket("/")
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
