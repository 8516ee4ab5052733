"""WebSockets of a native application, and an ASGI application mounted beside them."""

import asyncio
import json
import sys
from collections.abc import Coroutine
from typing import Any

from bolide import App, HTTPError, Request, Response, WebSocket, WebSocketClosed

app = App()
seen: dict[str, Any] = {}
may_go_on = asyncio.Event()


@app.get("/seen")
async def noted(request: Request) -> dict[str, Any]:
    return seen


@app.get("/both")
def page(request: Request) -> str:
    return "a page"


@app.get("/page")
def only_page(request: Request) -> str:
    return "only a page"


@app.websocket("/both")
async def both(ws: WebSocket) -> None:
    await ws.send("a WebSocket")


@app.websocket("/echo")
async def echo(ws: WebSocket) -> None:
    async for message in ws:
        await ws.send(message)
    seen["echo"] = [ws.is_open, ws.close_code, ws.close_reason]


@app.websocket("/presence")
async def presence(ws: WebSocket) -> None:
    """Note whether the client is there before and after the acceptance, and at the end."""
    seen["presence"] = noted = [ws.is_disconnected]
    await ws.accept()
    noted.append(ws.is_disconnected)
    left = asyncio.ensure_future(ws.disconnected())
    async for message in ws:
        noted.append(ws.is_disconnected)
        await ws.send(message)
    await left
    noted.append(ws.is_disconnected)


@app.websocket("/watched/{since}")
async def watched(ws: WebSocket, since: str) -> None:
    """Note when the client leaves, waiting for that since before or after the acceptance."""
    early = asyncio.ensure_future(ws.disconnected()) if since == "offer" else None
    await asyncio.sleep(0)
    await ws.accept()
    if since == "slow send":
        for _ in range(3):
            await ws.send(bytes(50_000))
    watch = early or asyncio.ensure_future(ws.disconnected())
    await ws.send("watched")
    seen["watched"] = [since, ws.is_disconnected, watch.done()]
    await watch
    seen["watched"] = [since, ws.is_disconnected, watch.done()]


@app.websocket("/outlived")
async def outlived(ws: WebSocket) -> None:
    """Start a task that waits for the end, and end before it."""
    watch = asyncio.ensure_future(ws.disconnected())
    watch.add_done_callback(lambda _: seen.update(outlived=ws.is_disconnected))
    await ws.accept()
    await asyncio.sleep(0)
    seen["outlived"] = ws.is_disconnected


@app.websocket("/task/{name}")
async def task_name(ws: WebSocket, name: str) -> None:
    task = asyncio.current_task()
    assert task
    if name != "default":
        task.set_name(name)
    await ws.receive()
    await ws.send(task.get_name())


@app.websocket("/request/{name}/{number:int}")
async def request(ws: WebSocket, number: int, name: str) -> None:
    shown = {
        "path": ws.path,
        "path_params": ws.path_params,
        "arguments": [name, number],
        "query": ws.query["q"],
        "header": ws.headers["x-own"],
        "cookies": ws.cookies,
        "method": ws.method,
        "host": ws.host,
        "client": ws.client[0] if ws.client else None,
        "state": vars(ws.state),
        "app": ws.app is app,
    }
    await ws.send(json.dumps(shown))


@app.websocket("/accept")
async def accept(ws: WebSocket) -> None:
    await ws.accept(ws.subprotocols[-1], {"X-Own": "1"})
    await ws.send(f"{ws.subprotocols} {ws.subprotocol}")
    try:
        await ws.accept()
    except RuntimeError as error:
        await ws.send(str(error))


@app.websocket("/unoffered")
async def unoffered(ws: WebSocket) -> None:
    await ws.accept("none")


@app.websocket("/accept/{name}")
async def accept_with_field(ws: WebSocket, name: str) -> None:
    try:
        await ws.accept(headers={name: "own"})
    except ValueError as error:
        await ws.accept()
        await ws.send(str(error))


@app.websocket("/reject")
async def reject(ws: WebSocket) -> None:
    await ws.reject(401, "who are you?", headers={"WWW-Authenticate": "Basic"})
    try:
        await ws.send("refused")
    except RuntimeError as error:
        seen["rejected"] = str(error)


@app.websocket("/raises/{when}")
async def raises(ws: WebSocket, when: str) -> None:
    if when == "status":
        raise HTTPError(418, "no tea")
    if when == "handled":
        raise LookupError("handled")
    if when == "before":
        raise ValueError("before it is accepted")
    await ws.send("open")
    raise ValueError("after it was accepted")


@app.error_handler(LookupError)
async def handled(request: Request, error: LookupError) -> Response:
    await asyncio.sleep(0)
    return Response(f"{type(request).__name__}: {error}", status=404)


@app.websocket("/returns/{what}")
async def returns(ws: WebSocket, what: str) -> Any:
    await asyncio.sleep(0)
    return {"nothing": None, "text": "text", "response": Response("gone", status=410)}[what]


@app.websocket("/undecided")
async def undecided(ws: WebSocket) -> None:
    seen["undecided"] = "began"
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        seen["undecided"] = "cancelled"
        raise


@app.websocket("/receive")
async def receive(ws: WebSocket) -> None:
    first = await ws.receive()
    await ws.send(f"{type(first).__name__} {first!r}")
    try:
        await ws.receive()
    except WebSocketClosed as closed:
        seen["receive"] = [closed.code, closed.reason, str(closed)]
    try:
        await ws.send("late")
    except WebSocketClosed as closed:
        seen["send"] = [closed.code, closed.reason]
    await ws.close()
    raise WebSocketClosed(1000)  # only a consequence: it is not logged


@app.websocket("/unread")
async def unread(ws: WebSocket) -> None:
    """Send until that has to wait for a client that does not read, and note how it ends."""
    await ws.accept()
    waits = None
    while not waits:
        sending = asyncio.ensure_future(ws.send(bytes(50_000)))
        _, waits = await asyncio.wait({sending}, timeout=0.1)
    seen["unread"] = "waits"
    try:
        await sending
    except WebSocketClosed as closed:
        seen["unread"] = [closed.code, closed.reason]


@app.websocket("/impatient")
async def impatient(ws: WebSocket) -> None:
    """Give up on a message, do something else, and echo what comes after a request for `/go-on`."""
    await ws.accept()
    try:
        async with asyncio.timeout(0):
            await ws.receive()
    except TimeoutError:
        await ws.send("too late")
    await may_go_on.wait()
    async for message in ws:
        await ws.send(message)


def started(receiving: Coroutine[Any, Any, Any]) -> Any:
    """Run the first step of `receiving` at once. Return what cancels it.

    That is an eager task, or for an older Python what such a task would wait for.
    """
    if sys.version_info >= (3, 12):
        loop = asyncio.get_running_loop()
        return asyncio.Task(receiving, loop=loop, eager_start=True)
    awaited = receiving.send(None)
    awaited._asyncio_future_blocking = False
    awaited.add_done_callback(lambda _: receiving.close())
    return awaited


async def received(ws: WebSocket) -> Any:
    return await ws.receive()


@app.websocket("/eager")
async def eager(ws: WebSocket) -> None:
    """Cancel a `receive()` that was started in the step that a message has resumed, then itself."""
    async for message in ws:
        child = started(received(ws))
        child.cancel()
        if message == "self":
            asyncio.current_task().cancel()
        try:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            asyncio.current_task().uncancel()
            await ws.send("cancelled")
        else:
            await ws.send("goes on")


@app.get("/go-on")
async def go_on(request: Request) -> None:
    may_go_on.set()


@app.websocket("/close/{code:int}")
async def close(ws: WebSocket, code: int) -> None:
    try:
        await ws.close(code, "because")
    except ValueError as error:
        await ws.send(str(error))
        return
    await ws.close()
    try:
        await ws.send("late")
    except WebSocketClosed as error:
        seen["closed"] = f"{error.code} {error.reason}"


@app.websocket("/wrong")
async def wrong(ws: WebSocket) -> None:
    for value in ({}, None, 1, "\ud800"):
        try:
            await ws.send(value)  # type: ignore[arg-type]
        except Exception as error:
            await ws.send(f"{type(error).__name__}: {error}"[:60])
    await ws.send(bytearray(b"a"))
    await ws.send(memoryview(b"b"))


@app.websocket("/topics/{topic}")
async def topics(ws: WebSocket, topic: str) -> None:
    ws.subscribe(topic)
    await ws.send("subscribed")
    async for message in ws:
        if message == "leave":
            ws.unsubscribe(topic)
            await ws.send("left")
        else:
            app.publish(topic, message)


@app.websocket("/many-topics")
async def many_topics(ws: WebSocket) -> None:
    """Say how often it could subscribe and why not more often, then leave one topic for another."""
    count = 0
    try:
        while True:
            ws.subscribe(f"topic {count}")
            ws.subscribe(f"topic {count}")
            count += 1
    except RuntimeError as error:
        await ws.send(f"{count}: {error}")
    for subscribe in (ws.subscribe, ws.unsubscribe, lambda topic: app.publish(topic, "x")):
        try:
            subscribe("\xe4" * 129)
        except ValueError as error:
            await ws.send(str(error))
    ws.unsubscribe("topic 0")
    ws.subscribe("\xe4" * 128)
    app.publish("\xe4" * 128, "the last topic")


@app.get("/publish/{topic}/{text}")
async def publish(request: Request, topic: str, text: str) -> str:
    await asyncio.to_thread(app.publish, topic, text)
    return "published"


async def mounted(scope: Any, receive: Any, send: Any) -> None:
    """Send back what comes."""
    if scope["type"] != "websocket":
        return
    await receive()
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.send", "text": f"{scope['root_path']} {scope['path']}"})
    while (event := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": event["text"]})


def wsgi(environ: Any, start_response: Any) -> list[bytes]:
    """Respond as to any request."""
    start_response("404 Not Found", [("Content-Length", "4")])
    return [b"wsgi"]


app.mount("/mounted", mounted, interface="asgi")
app.mount("/wsgi", wsgi, interface="wsgi")
