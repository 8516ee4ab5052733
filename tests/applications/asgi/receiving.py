"""What `receive()` gives, waits for and keeps, in the ways that applications call it."""

import asyncio
import json
from typing import Any

from kinds import START, Kinds, Receive, Send, part, respond, turns, word

kinds = Kinds()
app = kinds.app


async def messages(receive: Receive) -> list[Any]:
    """Receive up to the end of the content, or of the client."""
    found = []
    while True:
        message = await receive()
        found.append(message)
        if message["type"] == "http.disconnect":
            kinds.count("disconnects")
            return found
        if not message["more_body"]:
            return found


async def respond_json(send: Send, value: Any) -> None:
    await respond(send, json.dumps(value).encode(), (b"content-type", b"application/json"))


@kinds
async def upload(scope: Any, receive: Receive, send: Send) -> None:
    """Respond with the sizes of the messages, and whether each says that more comes."""
    kinds.count("uploading")
    if word(scope, 2) == "late":
        await turns()
    found = await messages(receive)
    if found[-1]["type"] == "http.request":
        await respond_json(send, [[len(each["body"]), each["more_body"]] for each in found])


@kinds
async def echo(scope: Any, receive: Receive, send: Send) -> None:
    """Respond with the content."""
    await respond(send, b"".join(each["body"] for each in await messages(receive)))


@kinds
async def blocks(scope: Any, receive: Receive, send: Send) -> None:
    """Return whether `receive()` after the content waits, however long."""
    found = await messages(receive)
    waiting = asyncio.ensure_future(receive())
    await turns(50)
    await respond_json(send, [len(found), len(found[-1]["body"]), waiting.done()])
    kinds.seen["blocks"] = (await waiting)["type"]


@kinds
async def wait(scope: Any, receive: Receive, send: Send) -> None:
    """Note what comes after the content."""
    await messages(receive)
    kinds.count("waiting")
    kinds.seen["wait"] = (await receive())["type"]
    kinds.count("waited")


@kinds
async def after(scope: Any, receive: Receive, send: Send) -> None:
    """Receive after a response that was sent at once, later or in parts."""
    way = word(scope, 2)
    if way == "later":
        await asyncio.sleep(0)
    if way == "parts":
        await send(START)
        await part(send, b"do")
        await part(send, b"ne", more=False)
    else:
        await respond(send, b"done")
    kinds.seen[f"after {way}"] = [(await receive())["type"] for _ in range(3)]


@kinds
async def watched(scope: Any, receive: Receive, send: Send) -> None:
    """Respond while a task waits in `receive()`, which the response's end must wake."""
    way = word(scope, 2)
    await messages(receive)
    watcher = asyncio.ensure_future(receive())
    await turns(3)
    if way == "whole":
        await respond(send, b"done")
    else:
        await send(START)
        await part(send, b"do")
        await part(send, b"ne", more=False)
    kinds.seen[f"watched {way}"] = (await watcher)["type"]


@kinds
async def watch(scope: Any, receive: Receive, send: Send) -> None:
    """Wait for something else for ever, while a task waits for the client's end."""
    if word(scope, 2) == "read":
        await receive()

    async def disconnected() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        kinds.count("watchers")

    watcher = asyncio.ensure_future(disconnected())
    kinds.count("watching")
    forever = asyncio.get_running_loop().create_future()
    await asyncio.wait({watcher, forever}, return_when=asyncio.FIRST_COMPLETED)


@kinds
async def own(scope: Any, receive: Receive, send: Send) -> None:
    """Wait for something of its own; only then ask whether the client is there."""
    await messages(receive)
    await kinds.held()
    kinds.seen["own"] = (await receive())["type"]


@kinds
async def cancelled(scope: Any, receive: Receive, send: Send) -> None:
    """Cancel `receive()` while it waits, some times over; then receive."""
    for _ in range(5):
        waiting = asyncio.ensure_future(receive())
        await turns(3)
        waiting.cancel()
        try:
            await waiting
        except asyncio.CancelledError:
            kinds.count("cancelled")
    await echo(scope, receive, send)


@kinds
async def timed(scope: Any, receive: Receive, send: Send) -> None:
    """Give `receive()` no time."""
    for wait_for in (asyncio.wait_for, _wait_in_timeout):
        for _ in range(3):
            try:
                await wait_for(receive(), 0.001)
            except TimeoutError:
                kinds.count("timed")
    await echo(scope, receive, send)


async def _wait_in_timeout(awaitable: Any, delay: float) -> Any:
    async with asyncio.timeout(delay):
        return await awaitable


@kinds
async def raced(scope: Any, receive: Receive, send: Send) -> None:
    """Cancel `receive()` when its message is there and before it goes on."""
    loop = asyncio.get_running_loop()
    waiting = asyncio.ensure_future(_coroutine(receive()))

    def cancel_when_there() -> None:
        waiter = waiting._fut_waiter  # type: ignore[attr-defined]
        if waiter is not None and waiter.done():
            waiting.cancel()
        elif not waiting.done():
            loop.call_soon(cancel_when_there)

    await turns(3)
    kinds.count("racing")
    cancel_when_there()
    try:
        await waiting
    except asyncio.CancelledError:
        kinds.count("raced")
    await echo(scope, receive, send)


async def _coroutine(awaitable: Any) -> Any:
    return await awaitable


@kinds
async def two(scope: Any, receive: Receive, send: Send) -> None:
    """Receive twice at once: one has the content, the other the client's end."""
    both = [asyncio.ensure_future(_coroutine(receive())) for _ in range(2)]
    await turns(3)
    kinds.count("two")
    done, left = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    await turns()
    kinds.seen["two first"] = [each.result()["type"] for each in both if each.done()]
    kinds.seen["two then"] = [(await each)["type"] for each in both if each in left]


@kinds
async def left(scope: Any, receive: Receive, send: Send) -> None:
    """Fail, and leave tasks running: two wait already, one begins later."""
    await messages(receive)
    if word(scope, 2) == "begun":
        await send(START)

    async def note(name: str, awaitable: Any) -> None:
        try:
            kinds.seen[name] = (await awaitable)["type"]
        except OSError as error:
            kinds.seen[name] = type(error).__name__

    async def late() -> None:
        await turns()
        await note("left late", receive())
        await note("left late send", _sent(send))

    kinds.tasks = [asyncio.ensure_future(note("left waiting", receive()))]  # type: ignore[attr-defined]
    if word(scope, 2) == "begun":
        sending = asyncio.ensure_future(note("left sending", _sent(send)))
        kinds.tasks.append(sending)  # type: ignore[attr-defined]
    kinds.tasks.append(asyncio.ensure_future(late()))  # type: ignore[attr-defined]
    await turns(3)
    raise ValueError("as the test wants it")


async def _sent(send: Send) -> Any:
    await part(send, b"c" * 8_000_000)
    return {"type": "sent"}


@kinds
async def silent(scope: Any, receive: Receive, send: Send) -> None:
    """Respond without receiving, when it is let."""
    if word(scope, 2) == "held":
        await kinds.held()
    await respond(send, b"unread")


@kinds
async def held(scope: Any, receive: Receive, send: Send) -> None:
    """Receive when it is let."""
    await kinds.held()
    await echo(scope, receive, send)
