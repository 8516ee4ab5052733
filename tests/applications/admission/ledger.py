"""An application that writes down which requests it begins and finishes, and holds some of them.

`/hold/NAME` waits until `/open` was asked for, or its client has left. The ledger is a file.
"""

import asyncio
import os

LEDGER = os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
gate = asyncio.Event()


def write(what: str, name: str) -> None:
    """Add a line, at once."""
    os.write(LEDGER, f"{what} {name}\n".encode())


async def opened():
    """Wait for the gate."""
    await gate.wait()


async def hold(receive):
    """Wait for the gate, or for the client's end."""
    left = asyncio.create_task(receive_end(receive))
    opening = asyncio.create_task(opened())
    await asyncio.wait([left, opening], return_when=asyncio.FIRST_COMPLETED)
    left.cancel()
    opening.cancel()


async def receive_end(receive):
    """Wait for the client's end."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def read(receive):
    """Read the content."""
    while (await receive()).get("more_body"):
        pass


async def serve_socket(receive, send):
    """Accept, and wait for the client's end."""
    await send({"type": "websocket.accept"})
    while (await receive())["type"] != "websocket.disconnect":
        pass


async def stream(send):
    """Begin the response at once, and end it when the gate is opened."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"first", "more_body": True})
    await gate.wait()
    await send({"type": "http.response.body", "body": b"last"})


async def serve(path, receive, send):
    """Respond, unless the response is a stream."""
    match path.split("/")[1]:
        case "open":
            gate.set()
        case "hold":
            await hold(receive)
        case "read":
            await read(receive)
        case "sleep":
            await asyncio.sleep(0.01)
        case "stream":
            return await stream(send)
    headers = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok"})


async def app(scope, receive, send):
    """Respond, and write that down."""
    if scope["type"] == "websocket":
        return await serve_socket(receive, send)
    if scope["type"] != "http":
        raise NotImplementedError
    write("begun", scope["path"])
    try:
        await serve(scope["path"], receive, send)
    finally:
        write("finished", scope["path"])
