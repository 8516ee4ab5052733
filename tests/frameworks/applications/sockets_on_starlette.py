"""The endpoints of test_websocket.py in Starlette."""

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket


async def echo(websocket: WebSocket) -> None:
    offered = websocket.scope["subprotocols"]
    await websocket.accept(subprotocol="chat" if "chat" in offered else None)
    await websocket.send_text(f"{websocket.path_params['name']} {websocket.query_params['q']}")
    while (message := await websocket.receive())["type"] == "websocket.receive":
        if message.get("bytes") is not None:
            await websocket.send_bytes(message["bytes"])
        elif message["text"] == "close":
            return await websocket.close(4000, "done")
        else:
            await websocket.send_text(message["text"])


async def refuse(websocket: WebSocket) -> None:
    await websocket.close(4001)


async def deny(websocket: WebSocket) -> None:
    await websocket.send_denial_response(PlainTextResponse("not you", 401))


async def fail(websocket: WebSocket) -> None:
    await websocket.accept()
    raise ValueError("after the handshake")


app = Starlette(
    routes=[
        WebSocketRoute("/echo/{name}", echo),
        WebSocketRoute("/refuse", refuse),
        WebSocketRoute("/deny", deny),
        WebSocketRoute("/fail", fail),
    ]
)
