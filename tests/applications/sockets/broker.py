"""News that reach the subscribers of all workers, as docs/guide/websocket.md shows it."""

import asyncio
import logging
import os

from redis.asyncio import Redis

from bolide import App, Request, WebSocket

app = App()
redis = Redis(unix_socket_path=os.environ["REDIS"])
log = logging.getLogger("news")


def packed(message: str | bytes) -> bytes:
    """Return what Redis carries for a message: text and binary data differ in the first octet."""
    return b"t" + message.encode() if isinstance(message, str) else b"b" + message


def unpacked(data: bytes) -> str | bytes:
    """Return the message that `packed` made this of."""
    return data[1:].decode() if data.startswith(b"t") else data[1:]


@app.on_startup
async def listen() -> None:
    """Publish to this worker's subscribers what the broker sends."""
    channel = redis.pubsub()
    await channel.psubscribe("news.*")

    async def forward() -> None:
        while True:
            try:
                async for event in channel.listen():
                    if event["type"] == "pmessage":
                        app.publish(event["channel"].decode(), unpacked(event["data"]))
            except Exception:
                log.exception("a message is not forwarded, or Redis does not respond")
            await asyncio.sleep(1)

    app.state.forwarding = asyncio.create_task(forward())


@app.on_shutdown
async def stop() -> None:
    """End the connections to the broker."""
    app.state.forwarding.cancel()
    await redis.aclose()


@app.get("/pid")
def pid(request: Request) -> str:
    return str(os.getpid())


@app.websocket("/news/{topic}")
async def news(ws: WebSocket, topic: str) -> None:
    ws.subscribe(f"news.{topic}")
    await ws.send(str(os.getpid()))
    async for message in ws:
        await redis.publish(f"news.{topic}", packed(message))
