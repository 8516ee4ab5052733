"""News that reach the subscribers of all workers, as docs/guide/websocket.md shows it."""

import asyncio
import os

from redis.asyncio import Redis

from bolide import App, Request, WebSocket

app = App()
redis = Redis(unix_socket_path=os.environ["REDIS"])


@app.on_startup
async def listen() -> None:
    """Publish to this worker's subscribers what the broker sends."""
    channel = redis.pubsub()
    await channel.psubscribe("news.*")

    async def forward() -> None:
        async for event in channel.listen():
            if event["type"] == "pmessage":
                app.publish(event["channel"].decode(), event["data"].decode())

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
        await redis.publish(f"news.{topic}", message)
