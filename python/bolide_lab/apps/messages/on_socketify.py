"""WebSockets from socketify: /echo sends a message back, /broadcast to all.

`on_socketify.py HOST PORT`.
"""

import sys

from socketify import App, AppListenOptions, CompressOptions

OPTIONS = {
    "compression": CompressOptions.SHARED_COMPRESSOR,
    "max_payload_length": 16 * 1024 * 1024,
    "idle_timeout": 120,
}


def echo(socket, message, opcode):
    """Send the same content; compressed if that is agreed on."""
    socket.send(message, opcode, True)


def subscribe(socket):
    """Receive messages from now on."""
    socket.subscribe("all")


def publish(socket, message, opcode):
    """Send the same content to all, which includes the sender here."""
    socket.publish("all", message, opcode)


def missing(response, request):
    """Send 404 for any other path."""
    response.write_status(404).end("Not Found")


app = App()
app.ws("/echo", {**OPTIONS, "message": echo})
app.ws("/broadcast", {**OPTIONS, "open": subscribe, "message": publish})
app.any("/*", missing)
app.listen(AppListenOptions(port=int(sys.argv[2]), host=sys.argv[1]), lambda config: None)
app.run()
