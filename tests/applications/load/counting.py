"""An application that counts its responses, to compare them with a load generator's count."""

import time
from collections import Counter

from bolide import App, Request, Response

app = App()
counted: Counter[str] = Counter()


@app.get("/counts")
def counts(request: Request) -> dict[str, int]:
    """Report the counts by path; this request is not counted."""
    return dict(sorted(counted.items()))


@app.get("/page/{name:str}")
def page(request: Request, name: str) -> str:
    """Respond the same every time."""
    counted[name] += 1
    return f"page {name}"


@app.post("/items")
def items(request: Request) -> Response:
    """Return what came, and its type."""
    counted["items"] += 1
    kind = request.headers.get("content-type") or "none"
    return Response(b"%d %s" % (len(request.read()), kind.encode()), status=201)


@app.get("/status/{code:int}")
def status(request: Request, code: int) -> Response:
    """Respond with a status."""
    counted["status"] += 1
    return Response(b"no", status=code)


@app.get("/longer")
def longer(request: Request) -> str:
    """Respond with one byte more every time."""
    counted["longer"] += 1
    return "x" * counted["longer"]


@app.get("/slow")
def slow(request: Request) -> str:
    """Take 4 ms of the server's only thread, so that it serves fewer than 250 a second."""
    time.sleep(0.004)
    return "slow"
