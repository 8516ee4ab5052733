"""WebSockets of an ASGI application: the first part of the path names a function.

It responds to `/seen` and `/release` as `kinds` does.
"""

import asyncio
import contextlib
import contextvars
import inspect
import json
from collections.abc import Callable
from typing import Any

from kinds import Kinds, Receive, Send, lifespan, word

kinds = Kinds()

ACCEPT = {"type": "websocket.accept"}
VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="none")


async def app(scope: Any, receive: Receive, send: Send) -> None:
    """Serve lifespan, http and websocket."""
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
    else:
        await kinds.app(scope, receive, send)


async def say(send: Send, text: str) -> None:
    """Send a text."""
    await send({"type": "websocket.send", "text": text})


async def opened(receive: Receive, send: Send) -> None:
    """Accept a handshake."""
    assert await receive() == {"type": "websocket.connect"}
    await send(ACCEPT)


@kinds
async def echo(scope: Any, receive: Receive, send: Send) -> None:
    """Send back what comes, in the same form; note how it ends."""
    await opened(receive, send)
    while (event := await receive())["type"] == "websocket.receive":
        await send({**event, "type": "websocket.send"})
    kinds.seen["end"] = [event["type"], event["code"], event["reason"]]
    kinds.count("ends")


@kinds
async def collect(scope: Any, receive: Receive, send: Send) -> None:
    """Note everything that comes, when it is let."""
    await opened(receive, send)
    await kinds.held()
    collected = []
    while (event := await receive())["type"] == "websocket.receive":
        collected.append(event["text"])
    kinds.seen["collected"] = [*collected, event["code"]]


@kinds
async def scoped(scope: Any, receive: Receive, send: Send) -> None:
    """Send the scope."""
    await opened(receive, send)
    shown = {**scope, "headers": [[each.decode() for each in pair] for pair in scope["headers"]]}
    await say(send, json.dumps(shown, default=repr))


@kinds
async def before(scope: Any, receive: Receive, send: Send) -> None:
    """End before the handshake has a response: as the path says."""
    assert await receive() == {"type": "websocket.connect"}
    match word(scope, 2):
        case "close":
            await send({"type": "websocket.close", "code": 4001})
            kinds.seen["after refusal"] = await receive()
        case "errors":
            await send({"type": "websocket.close", "code": 999, "reason": [{"loc": "q"}]})
        case "raise":
            raise RuntimeError("before accept")
        case "return":
            return
        case "send":
            try:
                await say(send, "too early")
            except RuntimeError as error:
                kinds.seen["too early"] = str(error)
        case "wait":
            kinds.count("waits")
            event = await receive()
            kinds.seen["gone"] = [event["type"], event["code"]]
        case "hold":
            await kinds.held()
            await send(ACCEPT)
            await say(send, (await receive())["text"])


@kinds
async def denial(scope: Any, receive: Receive, send: Send) -> None:
    """Refuse with a response of its own, in one part, in several, or unfinished."""
    await receive()
    headers = [(b"x-reason", b"testing"), (b"content-type", b"text/plain")]
    start = {"type": "websocket.http.response.start", "status": 401, "headers": headers}
    body = {"type": "websocket.http.response.body"}
    await send(start)
    match word(scope, 2):
        case "whole":
            await send({**body, "body": b"not you"})
        case "parts":
            await send({**body, "body": b"not ", "more_body": True})
            await asyncio.sleep(0)
            await send({**body, "body": b"you", "more_body": True})
            await send(body)
        case "raise":
            raise RuntimeError("in the denial")
        case "accept":
            try:
                await send(ACCEPT)
            except RuntimeError as error:
                await send({**body, "body": str(error).encode()})


@kinds
async def accept(scope: Any, receive: Receive, send: Send) -> None:
    """Accept with what the client's first header fields ask for; send the error if there is one."""
    await receive()
    asked = json.loads(bytes.fromhex(word(scope, 2)))
    headers = [(name.encode(), value.encode()) for name, value in asked.get("headers", [])]
    try:
        await send({**ACCEPT, "subprotocol": asked.get("subprotocol"), "headers": headers})
    except ValueError as error:
        await send(ACCEPT)
        await say(send, str(error))
    else:
        await say(send, "accepted")


@kinds
async def sends(scope: Any, receive: Receive, send: Send) -> None:
    """Send what is right and what is wrong; note the errors."""
    await opened(receive, send)
    errors = kinds.seen["errors"] = []
    for message in (
        {"text": "a", "bytes": None},
        {"text": None, "bytes": b"b"},
        {"bytes": bytearray(b"c")},
        {"bytes": memoryview(b"d")},
        {"text": ""},
        {"text": "\u00e9\u20ac\U0001f600"},
        {"text": "a", "bytes": b"b"},
        {"text": None, "bytes": None},
        {},
        {"text": b"a"},
        {"bytes": "b"},
        {"text": "\ud800"},
    ):
        try:
            await send({"type": "websocket.send", **message})
        except Exception as error:
            errors.append(type(error).__name__)
    for wrong in ({"type": "websocket.accept"}, {"type": "http.response.start"}, {}, "text"):
        try:
            await send(wrong)
        except Exception as error:
            errors.append(type(error).__name__)
    await say(send, "end")


@kinds
async def close(scope: Any, receive: Receive, send: Send) -> None:
    """Close with a code and a reason; note what comes after, and what sending does then."""
    await opened(receive, send)
    message: dict[str, Any] = {"type": "websocket.close"}
    if word(scope, 2):
        message["code"] = int(word(scope, 2))
    if word(scope, 3):
        message["reason"] = word(scope, 3)
    try:
        await send(message)
    except ValueError:
        await send({"type": "websocket.close", "code": 4000, "reason": "ValueError"})
    after = []
    for late in ({"type": "websocket.send", "text": "late"}, {"type": "websocket.close"}):
        try:
            await send(late)
        except RuntimeError as error:
            after.append(type(error).__name__)
    event = await receive()
    kinds.seen["after close"] = [*after, event["type"], event["code"], event["reason"]]
    kinds.count("closed")


@kinds
async def ends(scope: Any, receive: Receive, send: Send) -> None:
    """Return or raise with the WebSocket open."""
    await opened(receive, send)
    await say(send, "open")
    await receive()
    if word(scope, 2) == "raise":
        raise RuntimeError("with an open WebSocket")


@kinds
async def gone(scope: Any, receive: Receive, send: Send) -> None:
    """Send after the client has left; note which error that is."""
    await opened(receive, send)
    event = await receive()
    kinds.seen["gone"] = [event["type"], event["code"]]
    again = await receive()
    assert again == event
    await send({"type": "websocket.close"})
    try:
        await say(send, "nobody")
    except OSError as error:
        kinds.seen["sending"] = type(error).__name__
    kinds.count("left")


@kinds
async def flood(scope: Any, receive: Receive, send: Send) -> None:
    """Send until a message stays unaccepted for a while; then wait for it; note what was sent."""
    await opened(receive, send)
    sent = 0
    content = b"x" * 65_536
    while True:
        sending = asyncio.ensure_future(send({"type": "websocket.send", "bytes": content}))
        done, _ = await asyncio.wait({sending}, timeout=0.3)
        if not done:
            break
        await sending
        sent += 1
    kinds.seen["sent"] = sent
    kinds.count("stuck")
    try:
        await sending
        kinds.seen["went on"] = sent + 1
        await send({"type": "websocket.close"})
    except OSError as error:
        kinds.seen["went on"] = type(error).__name__


@kinds
async def slow(scope: Any, receive: Receive, send: Send) -> None:
    """Receive nothing before it is let; then count what comes until an empty text."""
    await opened(receive, send)
    await kinds.held()
    count = size = 0
    while (event := await receive()).get("text") != "":
        count += 1
        size += len(event["bytes"])
    await say(send, f"{count} {size}")


@kinds
async def tasks(scope: Any, receive: Receive, send: Send) -> None:
    """Receive in a task that is cancelled meanwhile: no message may be lost."""
    await opened(receive, send)
    for _ in range(3):
        receiving = asyncio.ensure_future(receive())
        await asyncio.sleep(0)
        receiving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await receiving
        assert receiving.cancelled()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(receive(), 0.01)
    await say(send, "ready")
    async with asyncio.timeout(10):
        await say(send, (await receive())["text"])
    first, second = asyncio.ensure_future(receive()), asyncio.ensure_future(receive())
    await say(send, "two")
    await say(send, (await first)["text"] + (await second)["text"])


@kinds
async def watched(scope: Any, receive: Receive, send: Send) -> None:
    """Refuse while another task receives; note what that gets, and its variable."""
    await receive()

    async def watch() -> None:
        VARIABLE.set("its own")
        event = await receive()
        kinds.seen["watched"] = [event["type"], VARIABLE.get()]

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    await send({"type": "websocket.close"})
    await watching
    kinds.count("watches")


@kinds
async def context(scope: Any, receive: Receive, send: Send) -> None:
    """Check that the task stays the same, and that its variables are its own."""
    await opened(receive, send)
    own = asyncio.current_task()
    while (event := await receive())["type"] == "websocket.receive":
        assert asyncio.current_task() is own
        before = VARIABLE.get()
        VARIABLE.set(event["text"])
        await say(send, before)


@kinds
async def pushed(scope: Any, receive: Receive, send: Send) -> None:
    """Send from a task while another one receives, until the client has left."""
    await opened(receive, send)

    async def push() -> None:
        for number in range(3):
            await say(send, f"pushed {number}")
            await asyncio.sleep(0)

    pushing = asyncio.ensure_future(push())
    while (event := await receive())["type"] == "websocket.receive":
        await pushing
        await say(send, event["text"])


@kinds
async def calls(scope: Any, receive: Receive, send: Any) -> None:
    """Call what an application is given in unusual ways; note what comes of it."""
    await opened(receive, send)
    ways: dict[str, Callable[[], Any]] = {
        "receive(1)": lambda: receive(1),  # type: ignore[call-arg]
        "receive(a=1)": lambda: receive(a=1),  # type: ignore[call-arg]
        "send()": lambda: send(),
        "send(1)": lambda: send(1),
        "send(1, 2)": lambda: send(1, 2),
        "send(a=1)": lambda: send(a=1),
        "send(surrogate=1)": lambda: send(**{"\udc80": 1}),
    }
    errors = kinds.seen["calls"] = {}
    for name, call in ways.items():
        try:
            call()
        except TypeError as error:
            errors[name] = str(error).encode(errors="replace").decode()
    signatures = [str(inspect.signature(each)) for each in (receive, send)]
    kept = receive()
    event = await kept
    again = receive()
    kinds.seen["kept"] = [*signatures, again is not kept, (await kept)["text"], sorted(event)]
    event.update(text="changed", more=1)
    kinds.seen["next"] = await again
    await send(message={"type": "websocket.send", "text": "named"})
