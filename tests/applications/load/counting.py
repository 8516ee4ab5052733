"""An application that counts what it answers, so that a load generator's count can be compared."""

import time
from collections import Counter

from bolide import App, Request, Response

app = App()
answered: Counter[str] = Counter()


@app.get("/counts")
def counts(request: Request) -> dict[str, int]:
    """Tell the counts by path; this request is not counted."""
    return dict(answered)


@app.get("/page/{name:str}")
def page(request: Request, name: str) -> str:
    """Answer the same every time."""
    answered[name] += 1
    return f"page {name}"


@app.post("/items")
def items(request: Request) -> Response:
    """Give back what came, and its type."""
    answered["items"] += 1
    kind = request.headers.get("content-type") or "none"
    return Response(b"%d %s" % (len(request.read()), kind.encode()), status=201)


@app.get("/status/{code:int}")
def status(request: Request, code: int) -> Response:
    """Answer with a status."""
    answered["status"] += 1
    return Response(b"no", status=code)


@app.get("/longer")
def longer(request: Request) -> str:
    """Answer with one byte more every time."""
    answered["longer"] += 1
    return "x" * answered["longer"]


@app.get("/slow")
def slow(request: Request) -> str:
    """Take 4 ms of the server's only thread, so that it answers fewer than 250 a second."""
    time.sleep(0.004)
    return "slow"
