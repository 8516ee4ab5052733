"""Serves the programs below `/STAGE/NAME`: in the request's first step, or after a suspension."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from typing import Any

from differential.programs import (
    cancelling,
    contexts,
    failing,
    generators,
    grouping,
    looking,
    looping,
    messages,
    outside,
    sending,
    sharing,
    streams,
    tasks,
)
from differential.programs.contexts import started
from differential.programs.table import PROGRAMS, SENT, Receive, Scope, Send, respond

FOLDER = (
    *(cancelling, contexts, failing, generators, grouping, looking),
    *(looping, messages, outside, sending, sharing, streams, tasks),
)
"""The modules that enter programs into the table."""


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one request, or the lifespan."""
    if scope["type"] == "lifespan":
        return await lifespan(receive, send)
    _, stage, name = scope["path"].split("/")
    if stage == "hold":
        return await hold(int(name), send)
    if stage == "later":
        await asyncio.sleep(0)
    observed: Any = await PROGRAMS[name].run(scope, receive, send)
    if observed is not SENT:
        await respond(send, json.dumps(observed).encode())


async def hold(port: int, send: Send) -> None:
    """Block the loop until the test, which listens on a port, closes the connection."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.recv(1)
    await respond(send, b"held")


async def lifespan(receive: Receive, send: Send) -> None:
    """Start and stop."""
    await receive()
    started()
    asyncio.get_running_loop().set_debug("DIFFERENTIAL_DEBUG" in os.environ)
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})
