"""Handlers in spans, which respond with the id of theirs."""

import asyncio
from collections.abc import AsyncIterator

from spans import current, spans

import bolide
from bolide.errors import ClientDisconnected
from bolide.otel import traced

app = traced(bolide.App())


@app.get("/spans")
def show(request: bolide.Request) -> str:
    """Respond with the spans before this one."""
    return spans()


@app.get("/users/{user:int}")
def respond(request: bolide.Request, user: int) -> str:
    """Respond at once."""
    return current()


@app.route("/later/{name}", methods=["GET", "BREW"])
async def respond_later(request: bolide.Request, *, name: str) -> tuple[str, int]:
    """Respond after the first step."""
    before = current()
    await asyncio.sleep(0)
    assert current() == before
    return before, 202


@app.get("/response")
async def respond_with_status(request: bolide.Request) -> bolide.Response:
    """Respond with an error."""
    return bolide.Response(current(), status=503)


@app.get("/nothing")
def respond_without_content(request: bolide.Request) -> None:
    """Respond with 204."""


@app.get("/refuse")
def refuse(request: bolide.Request) -> str:
    """Respond with 403."""
    raise bolide.HTTPError(403)


@app.get("/raise")
def fail(request: bolide.Request) -> str:
    """Raise."""
    raise ValueError("as expected")


@app.get("/expected")
def fail_as_expected(request: bolide.Request) -> str:
    """Raise what has an error handler."""
    raise KeyError("nobody")


@app.error_handler(KeyError)
def respond_to_missing(request: bolide.Request, error: KeyError) -> tuple[str, int]:
    """Respond with 404."""
    return "nobody\n", 404


@app.get("/leave")
async def leave(request: bolide.Request) -> str:
    """Raise what a task group does in which content of a client that has left is read."""
    raise ExceptionGroup("as expected", [ClientDisconnected()])


@app.get("/stream")
async def stream(request: bolide.Request) -> AsyncIterator[str]:
    """Respond with parts."""
    yield "a"
    yield "b"
