"""The generator of one run, in a process of its own: `python -m bolide.fleet.generator`.

It reads one JSON object per line and writes one for each. The first line is the order with the
address that the agent has checked. When its input ends, the load ends: a generator never outlives
its agent.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from bolide import _core
from bolide.fleet.order import engine_plan
from bolide.fleet.wire import Order

END_S = 2.0


class Assignment(msgspec.Struct):
    """The first line."""

    order: Order
    address: str


class Generator:
    """A load, and what can be asked of it."""

    def __init__(self, load: _core.Load) -> None:
        self._load = load
        self._has_begun = False

    def respond(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Do what a line says; return the line that is its reply.

        Raises:
            OSError: a thread of the load could not start.
        """
        match asked["do"]:
            case "begin":
                self._has_begun = True
                self._load.begin(asked["at_ns"])
            case "stop":
                self._load.stop()
            case "record":
                return {"record": self._load.record()}
        counts = {"snapshot": self._load.snapshot()} if asked.get("counts") else {}
        return {"phase": self._phase(), **counts}

    def end(self) -> None:
        """End the load."""
        self._load.stop()
        self._load.wait(END_S)

    def _phase(self) -> str:
        if self._load.wait(0):
            return "done"
        if self._has_begun:
            return "running"
        return "ready" if self._load.is_ready() else "opening"


def start(assignment: Assignment) -> Generator:
    """Start a load that opens its connections and waits.

    Raises:
        ValueError: the order contradicts itself.
        OSError: the machine lacks a resource.
    """
    order = assignment.order
    content = order.tls.authorities if order.tls else None
    with tempfile.NamedTemporaryFile(suffix=".pem") as authorities:
        if content is not None:
            authorities.write(content)
            authorities.flush()
        name = None if content is None else authorities.name
        load = _core.Load(engine_plan(order, assignment.address, name))
        load.start()
    return Generator(load)


def serve(lines: Iterable[bytes], write: Callable[[dict[str, Any]], None]) -> None:
    """Respond to lines until they end."""
    source = iter(lines)
    first = next(source, None)
    if first is None:
        return
    try:
        generator = start(msgspec.json.decode(first, type=Assignment))
    except (OSError, ValueError, OverflowError) as error:
        return write({"phase": "failed", "reason": _sentence(error)})
    try:
        write({"phase": "opening"})
        for line in source:
            try:
                write(generator.respond(json.loads(line)))
            except (OSError, RuntimeError) as error:
                write({"phase": "failed", "reason": _sentence(error)})
    finally:
        generator.end()


def _sentence(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) else None
    return (text or str(error)).replace("\n", " ")


def _write(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        serve(sys.stdin.buffer, _write)
    except BrokenPipeError:
        sys.exit(1)
