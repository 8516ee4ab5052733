"""An ASGI application without a framework: what it does stands in the path."""

import asyncio
import json
from typing import Any

SEEN: dict[str, Any] = {"disconnects": 0, "after": "", "gone": "", "streams": 0, "held": 0}


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Serve lifespan and http."""
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                scope["state"]["started"] = True
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    kind = scope["path"].split("/")[1]
    await KINDS.get(kind, echo)(scope, receive, send)


async def answer(send: Any, body: bytes, *headers: tuple[bytes, bytes], status: int = 200) -> None:
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": body})


async def echo(scope: Any, receive: Any, send: Any) -> None:
    shown = {
        key: value if isinstance(value, str | dict | None) else repr(value)
        for key, value in scope.items()
    }
    scope["type"] = scope["state"]["mark"] = scope["asgi"]["mark"] = "changed"
    await answer(send, json.dumps(shown).encode(), (b"content-type", b"application/json"))


async def upload(scope: Any, receive: Any, send: Any) -> None:
    size, parts = 0, 0
    if scope["path"].endswith("late"):
        await asyncio.sleep(0.05)
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            SEEN["disconnects"] += 1
            return
        size += len(message["body"])
        parts += 1
        if not message["more_body"]:
            break
    await answer(send, f"{size} {parts >= 1}".encode())


async def stream(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for number in range(3):
        await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b"%d" % number, "more_body": True})
    await send({"type": "http.response.body"})
    SEEN["streams"] += 1


async def sized(scope: Any, receive: Any, send: Any) -> None:
    length = scope["path"].split("/")[2].encode()
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"Content-Length", length)]}
    )
    if scope["path"].endswith("empty"):
        return await send({"type": "http.response.body"})
    await send({"type": "http.response.body", "body": b"abc", "more_body": True})
    await send({"type": "http.response.body", "body": b"de"})


async def wait(scope: Any, receive: Any, send: Any) -> None:
    first = await receive()
    second = await receive()
    SEEN["disconnects"] += (first["type"], second["type"]) == ("http.request", "http.disconnect")
    await answer(send, b"too late")


async def seen(scope: Any, receive: Any, send: Any) -> None:
    await answer(send, json.dumps(SEEN).encode())


async def gone(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200})
    try:
        while True:
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
    except OSError as error:
        SEEN["gone"] = type(error).__name__


async def hold(scope: Any, receive: Any, send: Any) -> None:
    asyncio.get_running_loop().call_later(0.02, asyncio.current_task().cancel)  # type: ignore[union-attr]
    try:
        await receive()
    except asyncio.CancelledError:
        SEEN["held"] += 1
        message = await receive()
        await answer(send, message["body"])


async def after(scope: Any, receive: Any, send: Any) -> None:
    await answer(send, b"done")
    SEEN["after"] = (await receive())["type"]


async def raises(scope: Any, receive: Any, send: Any) -> None:
    where = scope["path"].split("/")[2]
    if where == "later":
        await asyncio.sleep(0)
    if where in ("started", "begun"):
        await send({"type": "http.response.start", "status": 200})
    if where == "begun":
        await send({"type": "http.response.body", "body": b"part", "more_body": True})
    if where != "silent":
        raise RuntimeError("on purpose")


async def order(scope: Any, receive: Any, send: Any) -> None:
    try:
        await send({"type": "http.response.body", "body": b"x"})
    except RuntimeError as error:
        await answer(send, str(error).encode())


KINDS = {
    "upload": upload,
    "stream": stream,
    "sized": sized,
    "wait": wait,
    "seen": seen,
    "after": after,
    "gone": gone,
    "hold": hold,
    "raises": raises,
    "order": order,
}
