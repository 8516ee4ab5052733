"""What a handler can ask of a request."""

import asyncio
import gc
import queue
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from bolide.errors import ClientDisconnected
from bolide.web import App, Request, WebSocket
from bolide.web.testclient import Result, TestClient

PARTS = [b"ab", b"cd", b"ef"]


def ask(question: Callable[[Request], Any], path: str = "/a", **arguments: Any) -> Any:
    """Return what a `def` handler gets for a question, without passing it through a response."""
    results: list[Any] = []
    app = App()

    @app.route("/{rest:path}", ["GET", "POST"])
    def handler(request: Request) -> None:
        results.append(question(request))

    with TestClient(app) as client:
        result = client.post(path, **arguments)
    assert result.status == 204
    return results[0]


def converse(handler: Callable[[Request], Any], **arguments: Any) -> Result:
    """Post to a handler."""
    app = App()
    app.post("/")(handler)
    with TestClient(app) as client:
        return client.post("/", **arguments)


def test_the_request_line() -> None:
    def question(request: Request) -> tuple[object, ...]:
        return request.method, request.path, request.raw_path, request.query_string

    asked = ask(question, "/a%20b/%C3%A9?q=%31")
    assert asked == ("POST", "/a b/é", b"/a%20b/%C3%A9", b"q=%31")


def test_where_it_came_from() -> None:
    def question(request: Request) -> tuple[object, ...]:
        return request.http_version, request.scheme, request.host, request.client

    assert ask(question, headers={"host": "example.org:80"}) == (
        "1.1",
        "http",
        "example.org:80",
        None,
    )


def test_the_url_is_put_together() -> None:
    headers = {"host": "example.org"}
    assert ask(lambda r: r.url, "/a%20b", headers=headers) == "http://example.org/a%20b"
    assert ask(lambda r: r.url, "/a?b=%20", headers=headers) == "http://example.org/a?b=%20"


def test_headers_are_found_in_any_case_and_kept() -> None:
    def question(request: Request) -> tuple[object, ...]:
        headers = request.headers
        return headers["X-A"], headers.get("x-b"), request.headers is headers

    assert ask(question, headers={"x-a": "1"}) == ("1", None, True)


@pytest.mark.parametrize(
    ("query", "pairs"),
    [
        ("", []),
        ("?", []),
        ("?a=1&b=2&a=3", [("a", "1"), ("b", "2"), ("a", "3")]),
        ("?a=&b", [("a", ""), ("b", "")]),
        ("?a=b+c%20d%2B", [("a", "b c d+")]),
        ("?%C3%A9=%C3%A8", [("é", "è")]),
        ("?a=%FF", [("a", "\ufffd")]),
        ("?a=1;b=2", [("a", "1;b=2")]),
        ("?a=b=c", [("a", "b=c")]),
    ],
)
def test_the_query_is_decoded(query: str, pairs: list[tuple[str, str]]) -> None:
    assert ask(lambda request: request.query, f"/a{query}").multi_items() == pairs


def test_cookies() -> None:
    assert ask(lambda request: request.cookies) == {}
    assert ask(lambda request: request.cookies, cookies={"a": "1", "b": "2"}) == {
        "a": "1",
        "b": "2",
    }


def test_the_content_type() -> None:
    assert ask(lambda request: request.content_type) is None
    asked = ask(lambda request: request.content_type, headers={"Content-Type": "A/b; c=d"})
    assert asked == "A/b; c=d"


def test_state_is_each_requests_own() -> None:
    seen = []
    app = App()

    @app.get("/")
    def handler(request: Request) -> None:
        seen.append(vars(request.state).copy())
        request.state.user = len(seen)
        assert request.state.user == len(seen)

    with TestClient(app) as client:
        assert [client.get("/").status for _ in range(3)] == [204] * 3
    assert seen == [{}, {}, {}]


def test_the_application_is_there() -> None:
    app = App()
    app.state.name = "ours"
    app.get("/")(lambda request: request.app.state.name)
    with TestClient(app) as client:
        assert client.get("/").text == "ours"


def test_path_parameters_are_there_even_if_not_taken() -> None:
    app = App()
    app.get("/{a:int}/{b}")(lambda request, a: request.path_params)
    with TestClient(app) as client:
        assert client.get("/1/%C3%A9%2F").json() == {"a": 1, "b": "é/"}


def test_content_in_a_def_handler_is_a_value() -> None:
    def handler(request: Request) -> list[object]:
        return [request.body().decode(), request.text(), request.json(), request.is_async]

    assert converse(handler, content=b"[1]").json() == ["[1]", "[1]", [1], False]
    assert converse(handler, content=iter([b"[", b"1]"])).json() == ["[1]", "[1]", [1], False]


def test_content_in_an_async_handler_is_awaited() -> None:
    async def handler(request: Request) -> list[object]:
        body = await request.body()
        again = await request.body()
        return [body == again, body.decode(), await request.text(), await request.json()]

    assert converse(handler, content=b"[1]").json() == [True, "[1]", "[1]", [1]]
    assert converse(handler, content=iter([b"[", b"1]"])).json() == [True, "[1]", "[1]", [1]]


def test_no_content_is_empty() -> None:
    async def handler(request: Request) -> list[object]:
        return [len(await request.body()), [part async for part in request.stream()]]

    assert converse(handler).json() == [0, []]
    assert converse(lambda request: request.body()).content == b""


def test_json_values_are_the_callers_own() -> None:
    def handler(request: Request) -> Any:
        request.json().append(2)
        return request.json()

    assert converse(handler, json=[1]).json() == [1]


@pytest.mark.parametrize(
    "content", [b"{", b"nul", b"[1,]", b'"\xff"', b"'a'", b"[" * 100_000, b"{} {}"]
)
@pytest.mark.parametrize("is_async", [False, True])
def test_malformed_json_is_the_clients_error(content: bytes, is_async: bool) -> None:
    async def async_handler(request: Request) -> Any:
        return await request.json()

    handler = async_handler if is_async else lambda request: request.json()
    result = converse(handler, content=content)
    assert result.status == 400
    assert result.text.startswith("400 Bad Request: the content is not valid JSON: ")
    assert "Traceback" not in result.text


def test_empty_content_is_named_when_json_is_read() -> None:
    result = converse(lambda request: request.json(), content=b"")
    says = "400 Bad Request: the content is empty, which is not valid JSON\n"
    assert (result.status, result.text) == (400, says)


@pytest.mark.parametrize(
    ("content", "content_type", "status", "text"),
    [
        (b"\xc3\xa9", None, 200, "é"),
        (b"\xe9", "text/plain; charset=ISO-8859-1", 200, "é"),
        (b"\xe9\x00", 'text/plain; charset="utf-16-le"', 415, None),
        (b"\xe9\x00", 'text/plain; charset="UTF-16LE"', 200, "é"),
        (b"\xfd", "text/plain; charset=iso-8859-9", 200, "ı"),
        (b"\xa1", "text/plain; charset=windows-874", 200, "\u0e01"),
        (b"\xe9F", "text/plain; charset=gb2312", 200, "\u9555"),
        (b"\x81A", "text/plain; charset=euc-kr", 200, "\uac02"),
        (b"\x87@", "text/plain; charset=shift_jis", 200, "\u2460"),
        (b"\xe9", None, 400, "400 Bad Request: the content is not valid utf-8\n"),
        (b"\xe9", "text/plain; charset=us-ascii", 400, None),
        (b"a", "text/plain; charset=punycode", 415, None),
        (
            b"a",
            "text/plain; charset=klingon",
            415,
            "415 Unsupported Media Type: the charset 'klingon' is not supported\n",
        ),
    ],
)
def test_text_is_of_the_content_types_charset(
    content: bytes, content_type: str | None, status: int, text: str | None
) -> None:
    headers = {"content-type": content_type} if content_type else {}
    result = converse(lambda request: request.text(), content=content, headers=headers)
    assert result.status == status
    assert text is None or result.text == text


def test_a_stream_gives_all_parts_once() -> None:
    async def handler(request: Request) -> dict[str, object]:
        parts = [part async for part in request.stream()]
        reasons = []
        for read in (request.body, request.text, request.json):
            with pytest.raises(RuntimeError) as caught:
                await read()
            reasons.append(str(caught.value))
        with pytest.raises(RuntimeError, match=r"stream\(\) has started"):
            async for _ in request.stream():
                pass
        has_empty = not all(parts)
        return {"content": b"".join(parts).decode(), "reasons": reasons, "has_empty": has_empty}

    for content in (b"abcdef", iter(PARTS)):
        result = converse(handler, content=content).json()
        assert result["content"] == "abcdef"
        assert set(result["reasons"]) == {
            "body() cannot read the content: stream() has started to read it"
        }
        assert not result["has_empty"]


def test_a_stream_arrives_while_the_client_sends() -> None:
    """The client sends its second part when the handler has said that it has the first."""
    app = App()

    @app.post("/")
    async def echo(request: Request) -> Any:
        return request.stream()

    with TestClient(app) as client, client.connect() as sock:
        reader = sock.makefile("rb")
        sock.sendall(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
        sock.sendall(b"2\r\nab\r\n")
        while reader.readline() != b"\r\n":
            pass
        assert reader.readline() + reader.readline() == b"2\r\nab\r\n"
        sock.sendall(b"3\r\ncde\r\n0\r\n\r\n")
        assert reader.read(8) == b"3\r\ncde\r\n"
        assert reader.read(5) == b"0\r\n\r\n"
        reader.close()


def test_a_stream_after_body_is_one_part() -> None:
    async def handler(request: Request) -> list[str]:
        await request.body()
        return [part.decode() async for part in request.stream()]

    assert converse(handler, content=iter(PARTS)).json() == ["abcdef"]


def test_two_readers_at_once_are_refused() -> None:
    async def handler(request: Request) -> list[str]:
        results = await asyncio.gather(request.body(), request.body(), return_exceptions=True)
        return [repr(result) for result in results]

    first, second = converse(handler, content=iter(PARTS)).json()
    assert first == "b'abcdef'"
    assert second.startswith("RuntimeError(")


def test_a_body_that_was_cancelled_can_be_read_on() -> None:
    """The client sends the rest when the handler has given up the first attempt."""
    app = App()
    is_cancelled = threading.Event()

    @app.post("/")
    async def handler(request: Request) -> bytes:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await request.body()
        is_cancelled.set()
        body: bytes = await request.body()
        return body

    def parts() -> Iterator[bytes]:
        yield b"ab"
        assert is_cancelled.wait(10)
        yield b"cd"

    with TestClient(app) as client:
        assert client.post("/", content=parts()).content == b"abcd"


def test_streams_are_for_async_handlers() -> None:
    def handler(request: Request) -> str:
        with pytest.raises(RuntimeError, match="in a def handler call body"):
            request.stream()
        return "refused"

    assert converse(handler).text == "refused"


@pytest.mark.parametrize("sending", [b"x" * 101, [b"x" * 60, b"x" * 60]])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_content_beyond_the_limit_is_refused(
    sending: bytes | Iterable[bytes], is_async: bool
) -> None:
    app = App()

    async def async_handler(request: Request) -> Any:
        return await request.body()

    app.post("/")(async_handler if is_async else lambda request: request.body())
    with TestClient(app, options={"body_bytes_max": 100}) as client:
        assert client.post("/", content=sending).status == 413
        assert client.post("/", content=b"x" * 100).content == b"x" * 100


def test_a_kept_request_stays_what_it_was() -> None:
    kept: list[Request] = []
    app = App()

    @app.post("/{name}")
    def handler(request: Request, name: str) -> str:
        kept.append(request)
        return name

    with TestClient(app) as client:
        for name in ("a", "b", "c"):
            client.post(f"/{name}?q={name}", headers={"x": name}, content=name)
        seen = [
            (request.path, request.query["q"], request.headers["x"], request.body())
            for request in kept
        ]
    assert seen == [(f"/{n}", n, n, n.encode()) for n in "abc"]


@pytest.mark.parametrize("kept", ["a task", "a cancelled task", "the awaitable"])
@pytest.mark.parametrize("protocol", ["http", "websocket"])
def test_a_request_that_keeps_its_disconnection_is_collected(protocol: str, kept: str) -> None:
    class Mark:
        pass

    marks: list[weakref.ref[Mark]] = []
    app = App()

    def keep(request: Any) -> None:
        left = request.disconnected()
        request.state.left = left if kept == "the awaitable" else asyncio.create_task(left)
        if kept == "a cancelled task":
            asyncio.get_running_loop().call_soon(request.state.left.cancel)
        request.state.mark = Mark()
        marks.append(weakref.ref(request.state.mark))

    @app.get("/")
    async def handler(request: Request) -> str:
        keep(request)
        return ""

    @app.websocket("/")
    async def socket_handler(ws: WebSocket) -> None:
        keep(ws)
        await ws.send("")

    with TestClient(app) as client:
        for _ in range(3):
            if protocol == "http":
                assert client.get("/").status == 200
            else:
                with client.websocket("/") as websocket:
                    assert websocket.receive() == ""
    gc.collect()
    assert [mark() for mark in marks] == [None] * 3


def test_a_wait_for_the_disconnection_can_be_repeated() -> None:
    async def handler(request: Request) -> str:
        left = request.disconnected()
        for _ in range(2):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await left
        assert not request.is_disconnected
        return "here"

    assert converse(handler).text == "here"


def test_a_client_that_disconnects_is_reported() -> None:
    outcomes: queue.Queue[object] = queue.Queue()
    app = App()

    @app.post("/")
    async def handler(request: Request) -> None:
        outcomes.put("called")
        try:
            await request.body()
        except ConnectionError as error:
            outcomes.put(error)
            raise

    with TestClient(app) as client:
        with client.connect() as sock:
            sock.sendall(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nabc")
            assert outcomes.get(timeout=10) == "called"
        assert isinstance(outcomes.get(timeout=10), ClientDisconnected)
        assert client.get("/missing").status == 404


def test_content_that_was_never_received_is_gone_after_the_response() -> None:
    outcomes: queue.Queue[object] = queue.Queue()
    tasks = []
    app = App()

    async def read_late(request: Request) -> None:
        try:
            outcomes.put(await request.body())
        except Exception as error:
            outcomes.put(error)

    @app.post("/")
    async def handler(request: Request) -> str:
        tasks.append(asyncio.create_task(read_late(request)))
        return "early"

    with TestClient(app) as client, client.connect() as sock:
        sock.sendall(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nabc")
        assert sock.recv(12) == b"HTTP/1.1 200"
        assert isinstance(outcomes.get(timeout=10), Exception)
