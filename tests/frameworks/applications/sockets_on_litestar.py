"""The endpoints of test_websocket.py in Litestar."""

from typing import Any

from litestar import Litestar, WebSocket, websocket
from litestar.exceptions import NotAuthorizedException


@websocket("/echo/{name:str}")
async def echo(socket: WebSocket[Any, Any, Any]) -> None:
    offered = socket.scope["subprotocols"]
    await socket.accept(subprotocols="chat" if "chat" in offered else None)
    await socket.send_text(f"{socket.path_params['name']} {socket.query_params['q']}")
    while (message := await socket.receive())["type"] == "websocket.receive":
        if message.get("bytes") is not None:
            await socket.send_bytes(message["bytes"])
        elif message["text"] == "close":
            return await socket.close(code=4000, reason="done")
        else:
            await socket.send_text(message["text"])


@websocket("/refuse")
async def refuse(socket: WebSocket[Any, Any, Any]) -> None:
    await socket.close(code=4001)


@websocket("/deny")
async def deny(socket: WebSocket[Any, Any, Any]) -> None:
    raise NotAuthorizedException("not you")


@websocket("/fail")
async def fail(socket: WebSocket[Any, Any, Any]) -> None:
    await socket.accept()
    raise ValueError("after the handshake")


app = Litestar(route_handlers=[echo, refuse, deny, fail])
