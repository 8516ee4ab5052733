"""`bolide.serve` inside a loop that somebody else runs, with tasks of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

import bolide

FACTORIES = {"asyncio": asyncio.SelectorEventLoop, "uvloop": uvloop.new_event_loop}
Main = Coroutine[Any, Any, None]


@pytest.fixture(params=FACTORIES)
def run(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Main], None]:
    monkeypatch.chdir(tmp_path)

    def run(main: Main, debug: bool = False) -> None:
        with asyncio.Runner(loop_factory=FACTORIES[request.param], debug=debug) as runner:
            runner.run(bounded(main))

    async def bounded(main: Main) -> None:
        async with asyncio.timeout(15):
            await main

    return run


def meeting_app() -> bolide.App:
    app = bolide.App()

    @app.get("/task")
    async def task(request: bolide.Request) -> str:
        await asyncio.sleep(0)
        return str(asyncio.current_task() is not None)

    @app.get("/quick")
    async def quick(request: bolide.Request) -> str:
        return str(asyncio.current_task() is not None)

    @app.get("/wait")
    async def wait(request: bolide.Request) -> str:
        app.state.waits.set()
        await app.state.event.wait()
        return "set"

    @app.on_startup
    async def startup() -> None:
        app.state.waits, app.state.event = asyncio.Event(), asyncio.Event()

    return app


async def begin(app: bolide.App, caplog: pytest.LogCaptureFixture) -> tuple[Any, int]:
    """Start serving as a task; give it and the port."""
    caplog.set_level(logging.INFO, "bolide")
    serving = asyncio.create_task(bolide.serve(app, port=0))
    while "serving the application on http://127.0.0.1:" not in caplog.text:
        assert not serving.done(), serving
        await asyncio.sleep(0)
    return serving, int(caplog.text.rpartition("127.0.0.1:")[2].split()[0])


async def get(port: int, *paths: str) -> list[bytes]:
    """Send all requests at once; give the contents of the responses."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"".join(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode() for path in paths))
    contents = []
    try:
        for _ in paths:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split()[0])
            contents.append(await reader.readexactly(length))
    finally:
        writer.close()
        await writer.wait_closed()
    return contents


async def end(serving: asyncio.Task[None]) -> None:
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving


@pytest.mark.parametrize("debug", [False, True])
def test_handlers_share_the_loop(
    run: Callable[..., None], caplog: pytest.LogCaptureFixture, debug: bool
) -> None:
    async def main() -> None:
        app = meeting_app()
        serving, port = await begin(app, caplog)
        others = asyncio.create_task(count_turns())
        waiting = asyncio.create_task(get(port, "/wait"))
        assert await get(port, *["/task", "/quick"] * 10) == [b"True"] * 20
        await app.state.waits.wait()
        app.state.event.set()
        assert await waiting == [b"set"]
        others.cancel()
        await end(serving)
        assert asyncio.all_tasks() <= {asyncio.current_task(), others}

    async def count_turns() -> None:
        while True:
            await asyncio.sleep(0)

    run(main(), debug)
    assert "ERROR" not in caplog.text


def test_requests_that_arrive_with_the_end_have_responses(
    run: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """The drain reads what has arrived, and runs its handlers, inside the task that serves."""

    async def main() -> None:
        serving, port = await begin(meeting_app(), caplog)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        request = b"GET /quick HTTP/1.1\r\nHost: a\r\n\r\n"
        writer.write(request)
        await reader.readuntil(b"True")
        writer.write(request)  # is sent at once, and the server has no turn before it is notified
        await end(serving)
        assert b"\r\n\r\nTrue" in await reader.read()
        writer.close()
        await writer.wait_closed()

    run(main())
    assert "ERROR" not in caplog.text


def test_stopping_the_loop_is_silent(
    run: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """What is left when the main coroutine returns is cancelled, as any task is."""

    async def main() -> None:
        app = meeting_app()
        _, port = await begin(app, caplog)
        app.state.asking = asyncio.create_task(get(port, "/wait"))
        await app.state.waits.wait()

    run(main())
    assert "was destroyed" not in caplog.text
