"""Is imported, and starts, only as far as the named pipes let it that it reads from."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bolide import App, Request


def pass_gate(name: str) -> None:
    """Say where it is, and wait for a byte from the pipe of that name, if there is one."""
    gate = os.environ.get(f"GATE_{name.upper()}")
    sys.stderr.write(f"at the gate of {name}\n")  # in one write, for two workers may be here
    if gate:
        with Path(gate).open("rb", buffering=0) as pipe:
            pipe.read(1)


pass_gate("import")
app = App()


@app.on_startup
def startup() -> None:
    """Wait at the second gate."""
    pass_gate("startup")


@app.on_shutdown
def shutdown() -> None:
    """Say so."""
    print("shutdown ran", file=sys.stderr, flush=True)


@app.get("/")
def hello(request: Request) -> str:
    """Greet."""
    return "hello"
