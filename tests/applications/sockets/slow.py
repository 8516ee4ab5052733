"""Handlers that keep the thread for some milliseconds with each message, and what others see."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bolide import App, Request, WebSocket, WebSocketClosed

STEP_S = 0.004

app = App()


class Record:
    """What one handler has done so far."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.most_in_a_turn = 0
        self.end: Any = None
        self.ends = 0
        self.is_released = False


record = Record()


@app.get("/record")
def read_record(request: Request) -> dict[str, Any]:
    return vars(record)


async def count_turns(mine: Record) -> None:
    """Notice how many messages are handled between two turns of the loop."""
    before = 0
    while True:
        await asyncio.sleep(0)
        mine.most_in_a_turn = max(mine.most_in_a_turn, len(mine.messages) - before)
        before = len(mine.messages)


@contextmanager
def recorded() -> Iterator[Record]:
    global record
    mine = record = Record()
    counting = asyncio.create_task(count_turns(mine))
    try:
        yield mine
    finally:
        counting.cancel()


def handle(mine: Record, message: str) -> None:
    mine.messages.append(message)
    time.sleep(STEP_S)


@app.websocket("/iterate")
@app.websocket("/collect")
async def iterate(ws: WebSocket) -> None:
    with recorded() as mine:
        async for message in ws:
            handle(mine, str(message))
            if ws.path == "/iterate":
                await ws.send(message)
        mine.end = ws.close_code


@app.websocket("/gather")
async def gather(ws: WebSocket) -> None:
    """Handle messages of many WebSockets; the first one records for all."""
    if ws.query.get("first"):
        with recorded():
            await ws.receive()
        return
    async for message in ws:
        handle(record, str(message))


@app.websocket("/cancelled")
async def cancelled(ws: WebSocket) -> None:
    """Receive in tasks, of which each is cancelled if it has to wait."""
    with recorded() as mine:
        while True:
            task = asyncio.ensure_future(ws.receive())
            await asyncio.sleep(0)
            if not task.done():
                task.cancel()
            try:
                message = str(await task)
            except asyncio.CancelledError:
                continue
            if message == "end":
                return
            handle(mine, message)


def may_ask_again(mine: Record) -> bool:
    """Note that a client has left, until another one ends that with a request for `/released`."""
    mine.ends += 1
    return not mine.is_released


@app.get("/released")
def release(request: Request) -> None:
    record.is_released = True


@app.websocket("/deaf")
async def deaf(ws: WebSocket) -> None:
    """Go on receiving whatever happens."""
    await ws.accept()
    with recorded() as mine:
        while True:
            try:
                await ws.receive()
            except WebSocketClosed:
                if not may_ask_again(mine):
                    break


@app.websocket("/deaf-iteration")
async def deaf_iteration(ws: WebSocket) -> None:
    with recorded() as mine:
        while True:
            async for _ in ws:
                pass
            if not may_ask_again(mine):
                break


async def of_asgi(scope: dict[str, Any], receive: Any, send: Any) -> None:
    assert (await receive())["type"] == "websocket.connect"
    with recorded() as mine:
        if scope["path"].endswith("/deaf"):
            await send({"type": "websocket.accept"})
            while (await receive())["type"] == "websocket.receive" or may_ask_again(mine):
                pass
            return
        await send({"type": "websocket.accept"})
        while (event := await receive())["type"] == "websocket.receive":
            handle(mine, event["text"])
        mine.end = event["code"]


app.mount("/asgi", of_asgi)
