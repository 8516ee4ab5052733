"""The endpoints of test_websocket.py in FastAPI."""

from fastapi import FastAPI, WebSocket, WebSocketDisconnect, WebSocketException
from fastapi.responses import PlainTextResponse

app = FastAPI()


@app.websocket("/echo/{name}")
async def echo(websocket: WebSocket, name: str, q: str) -> None:
    offered = websocket.scope["subprotocols"]
    await websocket.accept(subprotocol="chat" if "chat" in offered else None)
    await websocket.send_text(f"{name} {q}")
    try:
        while True:
            message = await websocket.receive()
            websocket._raise_on_disconnect(message)
            if message.get("bytes") is not None:
                await websocket.send_bytes(message["bytes"])
            elif message["text"] == "close":
                await websocket.close(4000, "done")
                return
            else:
                await websocket.send_text(message["text"])
    except WebSocketDisconnect:
        pass


@app.websocket("/refuse")
async def refuse(websocket: WebSocket) -> None:
    raise WebSocketException(code=4001)


@app.websocket("/deny")
async def deny(websocket: WebSocket) -> None:
    await websocket.send_denial_response(PlainTextResponse("not you", 401))


@app.websocket("/fail")
async def fail(websocket: WebSocket) -> None:
    await websocket.accept()
    raise ValueError("after the handshake")
