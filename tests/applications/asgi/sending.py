"""What applications may and may not send."""

import asyncio
import contextlib
from typing import Any

from kinds import START, Kinds, Receive, Send, part, respond, turns, word

kinds = Kinds()
app = kinds.app


def start(*headers: tuple[bytes, bytes], status: int = 200) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def finish(call: Any) -> None:
    """Take the only step of a call, where nothing can be awaited."""
    with contextlib.suppress(StopIteration):
        call.send(None)


@kinds
async def stream(scope: Any, receive: Receive, send: Send) -> None:
    """Send three parts, a turn of the loop between them."""
    await send(START)
    for number in range(3):
        await asyncio.sleep(0)
        await part(send, b"%d" % number)
    await send({"type": "http.response.body"})
    kinds.count("streams")


@kinds
async def sized(scope: Any, receive: Receive, send: Send) -> None:
    """Say a length, and send five bytes, in parts or whole, or none."""
    await send(start((b"Content-Length", word(scope, 2).encode())))
    if word(scope, 3) == "later":
        await asyncio.sleep(0)
    if word(scope, 4) in ("whole", "empty"):
        body = b"abcde" if word(scope, 4) == "whole" else b""
        return await part(send, body, more=False)
    await part(send, b"abc")
    await part(send, b"de", more=False)


@kinds
async def resized(scope: Any, receive: Receive, send: Send) -> None:
    """Send parts that do not fit, and then what does."""
    await send(start((b"content-length", b"5")))
    for body, more in [(b"abcdef", True), (b"abc", False), (b"", False)]:
        with contextlib.suppress(RuntimeError):
            await part(send, body, more=more)
    await part(send, b"abc")
    with contextlib.suppress(RuntimeError):
        await part(send, b"d", more=False)
    await part(send, b"de", more=False)


@kinds
async def nested(scope: Any, receive: Receive, send: Send) -> None:
    """Send a whole response while the headers of another one are read."""

    class Nested(list[Any]):
        def __iter__(self) -> Any:
            finish(send(start((b"x-inner", b"1"))))
            finish(send({"type": "http.response.body", "body": b"inner"}))
            return iter([(b"x-outer", b"1")])

    if word(scope, 2) == "later":
        await asyncio.sleep(0)
    try:
        await send({**START, "headers": Nested()})
    except RuntimeError:
        kinds.count("nested")


@kinds
async def held(scope: Any, receive: Receive, send: Send) -> None:
    """Send a start, and its content when it is let."""
    await send(start((b"x-start", b"sent")))
    await kinds.held()
    await send({"type": "http.response.body", "body": b"content"})


@kinds
async def headers(scope: Any, receive: Receive, send: Send) -> None:
    """Send the same headers in one of the shapes that the specification allows."""
    pairs = [(b"x-a", b"1"), (b"x-b", b"2"), (b"x-a", b"3"), (b"X-Mixed", b"")]
    shapes: dict[str, Any] = {
        "tuples": pairs,
        "lists": [list(pair) for pair in pairs],
        "tuple": tuple(pairs),
        "generator": (pair for pair in pairs),
        "generators": ((item for item in pair) for pair in pairs),
        "iterator": iter(pairs),
    }
    await send({**START, "headers": shapes[word(scope, 2)]})
    await send({"type": "http.response.body"})


REFUSED: dict[str, Any] = {
    "str-name": [("x-a", b"1")],
    "str-value": [(b"x-a", "1")],
    "line-end": [(b"x-a", b"1\r\nx-b: 2")],
    "nul": [(b"x-a", b"1\0")],
    "empty-name": [(b"", b"1")],
    "space-in-name": [(b"x a", b"1")],
    "colon-in-name": [(b"x:a", b"1")],
    "single": [(b"x-a",)],
    "triple": [(b"x-a", b"1", b"2")],
    "number": 1,
    "length": [(b"content-length", b"five")],
    "negative-length": [(b"content-length", b"-5")],
    "signed-length": [(b"content-length", b"+5")],
    "two-lengths": [(b"content-length", b"5"), (b"content-length", b"6")],
}


@kinds
async def refused(scope: Any, receive: Receive, send: Send) -> None:
    """Send a header that must not be; report what was raised, with another start."""
    try:
        await send({**START, "headers": REFUSED[word(scope, 2)]})
    except (TypeError, ValueError) as error:
        await respond(send, type(error).__name__.encode())


@kinds
async def ours(scope: Any, receive: Receive, send: Send) -> None:
    """Send fields that are the server's."""
    fields = [(b"transfer-encoding", b"gzip"), (b"connection", b"close"), (b"keep-alive", b"1")]
    await send(start(*fields))
    await send({"type": "http.response.body", "body": b"mine"})


@kinds
async def named(scope: Any, receive: Receive, send: Send) -> None:
    """Send a date and a server of its own."""
    await send(start((b"date", b"Thu, 01 Jan 1970 00:00:00 GMT"), (b"Server", b"mine")))
    await send({"type": "http.response.body", "body": b""})


@kinds
async def status(scope: Any, receive: Receive, send: Send) -> None:
    """Send a status with a content and its length, at once or in parts."""
    await send(start((b"content-length", b"4"), status=int(word(scope, 2))))
    if word(scope, 3) == "parts":
        await asyncio.sleep(0)
        await part(send, b"bo")
        await part(send, b"dy", more=False)
    else:
        await send({"type": "http.response.body", "body": b"body"})
    kinds.count("statuses")


@kinds
async def no_status(scope: Any, receive: Receive, send: Send) -> None:
    """Report what a start with such a status raises."""
    values: dict[str, Any] = {"str": "200", "none": None, "float": 200.5}
    name = word(scope, 2)
    value = int(name) if name.isdigit() else values[name]
    try:
        await send({"type": "http.response.start", "status": value})
    except (TypeError, ValueError) as error:
        await respond(send, type(error).__name__.encode())


WHOLE = [START, {"type": "http.response.body", "body": b"whole"}]
PARTS = [START, {"type": "http.response.body", "body": b"part", "more_body": True}]
ORDERS: dict[str, tuple[list[Any], Any]] = {
    "body-first": ([], {"type": "http.response.body"}),
    "second-start": ([START], START),
    "start-inside": (PARTS, START),
    "start-after": (WHOLE, START),
    "body-after": (WHOLE, {"type": "http.response.body", "body": b"more"}),
    "body-after-parts": ([*PARTS, {"type": "http.response.body"}], {"type": "http.response.body"}),
    "unknown": ([], {"type": "http.response.nonsense"}),
    "unknown-inside": (PARTS, {"type": "websocket.send"}),
    "no-type": ([], {"status": 200}),
    "no-dict": ([], b"hello"),
    "str-body": (PARTS, {"type": "http.response.body", "body": "text"}),
    "number-body": ([START], {"type": "http.response.body", "body": 5}),
    "str-first": ([START], {"type": "http.response.body", "body": "text"}),
}


@kinds
async def order(scope: Any, receive: Receive, send: Send) -> None:
    """Send messages and one that must not follow them; note what it raises; end the response."""
    name = word(scope, 2)
    before, wrong = ORDERS[name]
    if word(scope, 3) == "later":
        await turns(2)
    for message in before:
        await send(message)
    try:
        await send(wrong)
    except (RuntimeError, TypeError) as error:
        kinds.seen[name] = type(error).__name__
    if not before:
        await send(START)
    if len(before) < 2 or before == PARTS:
        await send({"type": "http.response.body", "body": b"end"})


@kinds
async def buffers(scope: Any, receive: Receive, send: Send) -> None:
    """Send a buffer, and change it as soon as `send()` returns, or before it is awaited."""
    way, when = word(scope, 2), word(scope, 3)
    if word(scope, 4) == "later":
        await asyncio.sleep(0)
    data = bytearray(b"original")
    body: Any = {"bytearray": data, "memoryview": memoryview(data)}.get(way)
    if way == "strided":
        body = memoryview(bytearray(b"o-r-i-g-i-n-a-l-"))[::2]
    await send(START)
    more = when == "parts"
    await send({"type": "http.response.body", "body": body, "more_body": more})
    data[:] = b"CHANGED!"
    if more:
        await asyncio.sleep(0)
        await send({"type": "http.response.body"})


@kinds
async def no_body(scope: Any, receive: Receive, send: Send) -> None:
    """Send a body that is `None`, as one part or before another one."""
    await send(START)
    body: Any = None
    if word(scope, 2) == "parts":
        await send({"type": "http.response.body", "body": body, "more_body": True})
        body = b"end"
    await send({"type": "http.response.body", "body": body})


@kinds
async def unawaited(scope: Any, receive: Receive, send: Send) -> None:
    """Await nothing that `send()` gives until all messages are said, and one of them never."""
    if word(scope, 2) == "later":
        await asyncio.sleep(0)
    last = send({"type": "http.response.body", "body": b"in order"})
    never: Any = send(start(status=201))
    first = send(START)
    never.close()
    await first
    await last


@kinds
async def dropped(scope: Any, receive: Receive, send: Send) -> None:
    """Drop a call that nobody awaits."""
    if word(scope, 2) == "later":
        await asyncio.sleep(0)
    send(start(status=201))
    await respond(send, b"sent")


@kinds
async def raises(scope: Any, receive: Receive, send: Send) -> None:
    """Fail in one of the places where an application can."""
    where = word(scope, 2)
    if where.startswith("later"):
        await asyncio.sleep(0)
    if "started" in where or "begun" in where:
        await send(START)
    if "begun" in where:
        await part(send, b"part")
    if "responded" in where:
        await respond(send, b"responded")
    if "interrupts" in where:
        raise KeyboardInterrupt
    if "exits" in where:
        raise SystemExit(3)
    if where == "cancels":
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
    if "silent" not in where:
        raise RuntimeError("on purpose")


@kinds
async def gone(scope: Any, receive: Receive, send: Send) -> None:
    """Send until the client has gone, and once more; note what both raise."""
    await send(START)
    for name in ("gone", "gone again"):
        try:
            while True:
                await part(send, b"x" * 65536)
        except OSError as error:
            kinds.seen[name] = [each.__name__ for each in type(error).__mro__]
    kinds.count("left")
    way = word(scope, 2)
    if way != "catches":
        await to_nobody(send, way)


class ClientDisconnectError(Exception):
    """What a framework makes of it."""


async def to_nobody(send: Send, way: str) -> None:
    """Send to a client that has gone, and let what is raised out in some way."""
    try:
        await part(send, b"to nobody")
    except OSError as error:
        if way == "translates":
            raise ClientDisconnectError from error
        if way == "translates silently":
            raise ClientDisconnectError from None
        if way == "stumbles":
            raise KeyError("of its own") from None
        if way == "groups":
            raise ExceptionGroup("of a task group", [error]) from None
        raise


@kinds
async def late(scope: Any, receive: Receive, send: Send) -> None:
    """Respond to a client that has gone meanwhile."""
    kinds.count("waiting")
    while (await receive())["type"] != "http.disconnect":
        pass
    await respond(send, b"too late")
    kinds.seen["late"] = "ignored"
