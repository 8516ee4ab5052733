"""A chat with rooms: everyone in a room gets what is said there.

A room exists once in each worker process: with `--workers 2`, publish through a broker, as the
guide to WebSocket shows.

Run it:  bolide serve examples/chat.py --websocket-origins same
Try it:  open http://127.0.0.1:8000/ in two windows of a browser
"""

import json
from pathlib import Path

from bolide import App, HTTPError, Request, Response, WebSocket

PAGE = Path(__file__).with_name("chat.html").read_text()
NAME_LENGTH_MAX = 40
TEXT_LENGTH_MAX = 2_000

app = App()


@app.get("/")
def page(request: Request) -> Response:
    return Response(text=PAGE, content_type="text/html")


@app.websocket("/chat/{room}")
async def chat(ws: WebSocket, room: str) -> None:
    """Publish to the room what its members say."""
    name = ws.query.get("name", "somebody")[:NAME_LENGTH_MAX]
    if len(room) > NAME_LENGTH_MAX:
        raise HTTPError(400, f"a room has at most {NAME_LENGTH_MAX} characters")
    await ws.accept()
    ws.subscribe(room)
    say(room, name, "joined")
    async for message in ws:
        if isinstance(message, bytes):
            await ws.close(1003, "only text")
        elif len(message) > TEXT_LENGTH_MAX:
            await ws.close(1009, f"at most {TEXT_LENGTH_MAX} characters")
        else:
            say(room, name, message)
    say(room, name, "left")


def say(room: str, name: str, text: str) -> None:
    """Send one line to everyone in a room."""
    app.publish(room, json.dumps({"name": name, "text": text}))
