"""Early hints, files and trailer sections."""

import asyncio
import os
import tempfile
import threading
from pathlib import Path
from typing import Any

from kinds import Kinds, Receive, Send, respond, word

kinds = Kinds()
app = kinds.app

CONTENT = bytes(range(256)) * 1024
FILE = Path(tempfile.mkdtemp()) / "file"
FILE.write_bytes(CONTENT)
FILE_DESCRIPTOR = os.open(FILE, os.O_RDONLY)


def start(*headers: tuple[bytes, bytes], **more: Any) -> dict[str, Any]:
    return {"type": "http.response.start", "status": 200, "headers": list(headers), **more}


async def pause(scope: Any) -> None:
    """Leave the first step, if the path says so."""
    if word(scope, 2) == "later":
        await asyncio.sleep(0)


@kinds
async def hint(scope: Any, receive: Receive, send: Send) -> None:
    """Send two interim responses and a final one."""
    await pause(scope)
    links = [b"</a.css>; rel=preload", b"</b.js>; rel=preload"]
    await send({"type": "http.response.early_hint", "links": links})
    await send({"type": "http.response.early_hint", "links": (b"</c>; rel=x",)})
    await respond(send, b"final")


@kinds
async def path(scope: Any, receive: Receive, send: Send) -> None:
    """Send a file by its path."""
    await pause(scope)
    await send(start((b"x-file", b"path")))
    await send({"type": "http.response.pathsend", "path": str(FILE)})


@kinds
async def short(scope: Any, receive: Receive, send: Send) -> None:
    """Send a file that is shorter than was said."""
    await send(start((b"content-length", b"%d" % (len(CONTENT) + 1))))
    await send({"type": "http.response.pathsend", "path": str(FILE)})


@kinds
async def missing(scope: Any, receive: Receive, send: Send) -> None:
    """Send a file that is not there; the failure is the application's to handle."""
    await send(start())
    try:
        await send({"type": "http.response.pathsend", "path": str(FILE) + ".missing"})
    except FileNotFoundError:
        await send({"type": "http.response.body", "body": b"no such file"})


@kinds
async def folder(scope: Any, receive: Receive, send: Send) -> None:
    """Send what is no regular file."""
    await send(start())
    try:
        await send({"type": "http.response.pathsend", "path": str(FILE.parent)})
    except ValueError:
        await send({"type": "http.response.body", "body": b"no file"})


@kinds
async def fifo(scope: Any, receive: Receive, send: Send) -> None:
    """Send what waits for a writer when it is opened."""
    name = FILE.with_name("fifo")
    if not name.exists():
        os.mkfifo(name)
    await send(start())
    try:
        await send({"type": "http.response.pathsend", "path": str(name)})
    except ValueError:
        await send({"type": "http.response.body", "body": b"no file"})


@kinds
async def copied(scope: Any, receive: Receive, send: Send) -> None:
    """Send parts of an open file, and bytes between them; close it before they have left."""
    await pause(scope)
    with FILE.open("rb") as file:
        file.seek(1000)
        await send(start())
        message = {"type": "http.response.zerocopysend", "file": file}
        await send({**message, "count": 5, "more_body": True})
        await send({"type": "http.response.body", "body": b"-between-", "more_body": True})
        await send({**message, "offset": len(CONTENT) - 3})


@kinds
async def copied_elsewhere(scope: Any, receive: Receive, send: Send) -> None:
    """Do the same in the loop of another thread."""
    await asyncio.to_thread(asyncio.run, copied(scope, receive, send))


@kinds
async def copied_in_turn(scope: Any, receive: Receive, send: Send) -> None:
    """Send parts of an open file, each from where the file is then; it may be a descriptor."""
    with FILE.open("rb", buffering=0) as file:
        file.seek(1000)
        await send(start())
        given = file.fileno() if word(scope, 2) == "descriptor" else file
        message = {"type": "http.response.zerocopysend", "file": given, "more_body": True}
        for count in (5, 7):
            await send({**message, "count": count})
        await send({"type": "http.response.body", "body": b"%d" % file.tell()})


class Late:
    """A file whose descriptor is known only when its request is over."""

    def __init__(self) -> None:
        self.asked, self.over = threading.Event(), threading.Event()

    def fileno(self) -> int:
        self.asked.set()
        self.over.wait()
        return FILE_DESCRIPTOR


late: list[Late] = []


@kinds
async def too_late(scope: Any, receive: Receive, send: Send) -> None:
    """Return while another thread is sending a file."""
    file = Late()
    late.append(file)

    async def send_file() -> None:
        message = {"type": "http.response.zerocopysend", "file": file, "offset": 0}
        try:
            await send({**message, "more_body": True})
        except OSError:
            kinds.count("too late")

    await send(start())
    await send({"type": "http.response.body", "body": b"part", "more_body": True})
    threading.Thread(target=lambda: asyncio.run(send_file()), daemon=True).start()
    await asyncio.to_thread(file.asked.wait)


@kinds
async def go_on(scope: Any, receive: Receive, send: Send) -> None:
    """Let that thread continue."""
    late.pop().over.set()
    await respond(send, b"")


@kinds
async def pipe(scope: Any, receive: Receive, send: Send) -> None:
    """Send from what is no regular file."""
    reading, writing = os.pipe()
    os.close(writing)
    await send(start())
    with open(reading, "rb") as file:
        try:
            await send({"type": "http.response.zerocopysend", "file": file, "offset": 0})
        except ValueError:
            await send({"type": "http.response.body", "body": b"no file"})


@kinds
async def trailers(scope: Any, receive: Receive, send: Send) -> None:
    """Send content, and a trailer section in two messages."""
    await pause(scope)
    await send(start((b"trailer", b"x-sum"), trailers=True))
    await send({"type": "http.response.body", "body": b"content"})
    message = {"type": "http.response.trailers"}
    await send({**message, "headers": [(b"x-sum", b"1")], "more_trailers": True})
    await send({**message, "headers": [[b"x-more", b"2"]]})


@kinds
async def forbidden(scope: Any, receive: Receive, send: Send) -> None:
    """Try a trailer that may not be one."""
    await send(start(trailers=True))
    await send({"type": "http.response.body", "body": b"content"})
    try:
        headers = [(b"Content-Length", b"1")]
        await send({"type": "http.response.trailers", "headers": headers})
    except ValueError:
        kinds.count("refused")
    await send({"type": "http.response.trailers", "headers": []})


@kinds
async def misplaced(scope: Any, receive: Receive, send: Send) -> None:
    """Send extensions where they are not allowed."""
    refused = 0
    for message in (
        {"type": "http.response.pathsend", "path": str(FILE)},
        {"type": "http.response.zerocopysend", "file": None},
        {"type": "http.response.trailers", "headers": []},
        {"type": "http.response.early_hint"},
        {"type": "http.response.early_hint", "links": [b"a\r\nb"]},
        {"type": "http.response.early_hint", "links": ["text"]},
    ):
        try:
            await send(message)
        except (RuntimeError, TypeError, ValueError, AttributeError):
            refused += 1
    await send(start())
    try:
        await send({"type": "http.response.early_hint", "links": []})
    except RuntimeError:
        refused += 1
    await send({"type": "http.response.body", "body": b"%d refused" % refused})
