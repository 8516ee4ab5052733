"""Handlers that do what their client wants, in steps without a suspension."""

import json

from bolide import App, WebSocket

app = App()


async def run(ws: WebSocket, topic: str, script: list[list[str]]) -> bool:
    """Run one step. Return whether it has closed the WebSocket."""
    is_closed = False
    for operation, *arguments in script:
        match operation:
            case "accept":
                await ws.accept()
            case "send":
                await ws.send(*arguments)
            case "publish":
                app.publish(topic, *arguments)
            case "subscribe":
                ws.subscribe(topic)
            case "unsubscribe":
                ws.unsubscribe(topic)
            case "close":
                await ws.close(3000)
                is_closed = True
    return is_closed


@app.websocket("/script/{topic}")
async def script(ws: WebSocket, topic: str) -> None:
    """Run the step of the query with the handshake, and one more for each message."""
    is_closed = await run(ws, topic, json.loads(ws.query["script"]))
    while not is_closed:
        is_closed = await run(ws, topic, json.loads(await ws.receive()))


@app.websocket("/observe/{topic}")
async def observe(ws: WebSocket, topic: str) -> None:
    ws.subscribe(topic)
    await ws.send("subscribed")
    async for _ in ws:
        pass
