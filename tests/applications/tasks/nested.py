"""Handlers that run the loop they run in, as nest_asyncio lets them."""

from __future__ import annotations

import asyncio
import os
import sys
import warnings

import nest_asyncio
from ask import Asked

asked = Asked()
app, asgi = asked.app, asked.asgi
WHEN = os.environ.get("APPLY_WHEN", "handler")
gates: dict[str, asyncio.Event] = {}

# nest_asyncio 1.6.0, the last one, asks for the policy, which CPython 3.14 deprecates.
warnings.filterwarnings("ignore", "'asyncio.get_event_loop_policy'", DeprecationWarning)

if WHEN == "import":
    loop = asyncio.new_event_loop()
    nest_asyncio.apply(loop)
    loop.close()


@asked.on_startup
def startup() -> None:
    """Make the loop re-entrant, if it is now that it is done."""
    if WHEN == "startup":
        nest_asyncio.apply(asyncio.get_running_loop())


async def steps() -> str:
    """Give way in each of the ways in which one can."""
    await asyncio.sleep(0)
    await asyncio.sleep(0.01)
    server = await asyncio.start_server(say, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    data = await reader.read()
    for each in (writer, server):
        each.close()
        await each.wait_closed()
    return await asyncio.to_thread(lambda: data.decode())


async def say(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one connection of the other server."""
    writer.write(b"nested")
    writer.close()
    await writer.wait_closed()


@asked
async def nested() -> str:
    """Run the loop inside the first step."""
    loop = asyncio.get_running_loop()
    nest_asyncio.apply(loop)
    task = asyncio.current_task()
    text: str = loop.run_until_complete(steps())
    assert asyncio.current_task() is task and asyncio.get_running_loop() is loop
    return text


@asked
async def nested_later() -> str:
    """Run it after a suspension, and suspend again."""
    await asyncio.sleep(0)
    text = await nested()
    await asyncio.sleep(0.001)
    return text


@asked
async def nested_before() -> str:
    """Suspend after it."""
    text = await nested()
    await asyncio.sleep(0.001)
    return text


@asked
async def nested_run() -> str:
    """Run it by `asyncio.run`, which nest_asyncio replaces."""
    nest_asyncio.apply(asyncio.get_running_loop())
    return asyncio.run(steps())


@asked
async def waits() -> str:
    """Run the loop until another request opens the gate, and say when that may come."""
    loop = asyncio.get_running_loop()
    nest_asyncio.apply(loop)
    gate = gates["gate"] = asyncio.Event()
    print("waiting at the gate", file=sys.stderr, flush=True)
    loop.run_until_complete(gate.wait())
    return "passed"


@asked
async def opens() -> str:
    """Open the gate, if somebody waits there."""
    if (gate := gates.get("gate")) is None:
        return "nobody"
    gate.set()
    return "opened"
