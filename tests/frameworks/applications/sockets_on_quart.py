"""The endpoints of test_websocket.py in Quart."""

from quart import Quart, abort, websocket

app = Quart(__name__)


@app.websocket("/echo/<name>")
async def echo(name: str) -> None:
    offered = websocket.requested_subprotocols
    await websocket.accept(subprotocol="chat" if "chat" in offered else None)
    await websocket.send(f"{name} {websocket.args['q']}")
    while True:
        message = await websocket.receive()
        if message == "close":
            await websocket.close(4000, "done")
            return
        await websocket.send(message)


@app.websocket("/refuse")
async def refuse() -> None:
    await websocket.close(4001)


@app.websocket("/deny")
async def deny() -> None:
    abort(401, "not you")


@app.websocket("/fail")
async def fail() -> None:
    await websocket.accept()
    raise ValueError("after the handshake")
