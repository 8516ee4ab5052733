"""Send a file, in a program that does not ignore SIGPIPE: SIGPIPE names what it does instead."""

import os
import signal
import sys
import tempfile
from typing import Any

FILE = tempfile.NamedTemporaryFile()
FILE.truncate(64 << 20)


def complain(number: int, frame: object) -> None:
    """Say that the signal came."""
    print("SIGPIPE came", file=sys.stderr, flush=True)


ACTIONS = {"default": signal.SIG_DFL, "handler": complain, "ignore": signal.SIG_IGN}
signal.signal(signal.SIGPIPE, ACTIONS[os.environ["SIGPIPE"]])


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Respond with the file, or at /pid with the number of the process."""
    if scope["type"] == "lifespan":
        raise NotImplementedError
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/pid":
        await send({"type": "http.response.body", "body": b"%d" % os.getpid()})
    else:
        await send({"type": "http.response.pathsend", "path": FILE.name})
