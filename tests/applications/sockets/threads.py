"""A handler that sends from another thread's loop, which runs on only when everything has left."""

import asyncio
import threading
from typing import Any

from bolide import App, WebSocket

LONG = "x" * 70_000
PATIENCE_S = 20

app = App()
other = asyncio.new_event_loop()
thread = threading.Thread(target=other.run_forever, daemon=True)
thread.start()


@app.websocket("/elsewhere")
async def elsewhere(ws: WebSocket) -> None:
    """Send a message there, and say when that has returned."""
    await ws.accept()
    loop: Any = asyncio.get_running_loop()
    wake = loop.call_soon_threadsafe
    has_left = threading.Event()

    def held(*arguments: Any, **options: Any) -> Any:
        """Change threads while the server is notified of the message."""
        handle = wake(*arguments, **options)
        if threading.current_thread() is thread:
            loop.call_soon_threadsafe = wake
            has_left.wait(PATIENCE_S)
        return handle

    async def say() -> None:
        await ws.send(LONG)

    loop.call_soon_threadsafe = held
    saying = asyncio.run_coroutine_threadsafe(say(), other)
    await ws.receive()
    has_left.set()
    await asyncio.wait_for(asyncio.wrap_future(saying), PATIENCE_S)
    await ws.send("returned")
