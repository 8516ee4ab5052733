"""Responds with the fields about traces."""

import json

import bolide

NAMES = ("traceparent", "tracestate", "baggage")

app = bolide.App()


@app.get("/")
def respond(request: bolide.Request) -> str:
    """Respond with them in their order."""
    return json.dumps([line for line in request.field_lines() if line[0] in NAMES])
