"""The generator of one run, in a process of its own: `python -m bolide.fleet.generator`.

It reads one JSON object per line and writes one with the same number for each. The first line is
the order with the address that the agent has checked. When its input ends, the load ends: a
generator never outlives its agent. It also ends the load of an agent that hangs, and asks nothing.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from bolide import _core
from bolide.fleet import clock
from bolide.fleet.order import engine_plan
from bolide.fleet.wire import PIECE_CHARS, Order

END_S = 2.0
WATCH_S = 0.25


class Assignment(msgspec.Struct):
    """The first line. The limits are for an agent that does not keep them itself any more."""

    order: Order
    address: str
    run_s_max: float
    silent_s_max: float


class Generator:
    """A load, and what can be asked of it."""

    def __init__(self, load: _core.Load, run_s_max: float, silent_s_max: float) -> None:
        self._load = load
        self._run_s_max = run_s_max
        self._silent_s_max = silent_s_max
        self._has_begun = False
        self._heard_s = _now_s()
        self._end_s = float("inf")
        self._record: str | None = None
        self._is_over = threading.Event()
        threading.Thread(target=self._watch_over, daemon=True).start()

    def respond(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Do what a line says; return the line that is its reply.

        Raises:
            OSError: a thread of the load could not start.
        """
        self._heard_s = _now_s()
        phase = self._phase()
        match asked["do"]:
            case "begin" if not self._has_begun:  # a second one would move the end
                self._has_begun, phase = True, "running"
                self._end_s = asked["at_ns"] / 1e9 + self._run_s_max
                self._load.begin(asked["at_ns"])
            case "stop":
                self._load.stop()
            case "record" if phase == "done":
                if self._record is None:
                    self._record = self._load.record()
                piece = self._record[asked["offset"] : asked["offset"] + PIECE_CHARS]
                return {"piece": piece, "total": len(self._record)}
        counts = {"snapshot": self._load.snapshot()} if asked.get("counts") else {}
        return {"phase": phase, **counts}

    def end(self) -> None:
        """End the load."""
        self._is_over.set()
        self._load.stop()
        self._load.wait(END_S)

    def _watch_over(self) -> None:
        """End a load of which the agent does not know any more, for example because it hangs."""
        while not self._is_over.wait(WATCH_S):
            now_s = _now_s()
            if now_s > self._end_s or now_s > self._heard_s + self._silent_s_max:
                return self._load.stop()

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
    return Generator(load, assignment.run_s_max, assignment.silent_s_max)


def serve(lines: Iterable[bytes], write: Callable[[dict[str, Any]], None]) -> None:
    """Respond to lines until they end, to each with its number; the first is 0."""
    source = iter(lines)
    first = next(source, None)
    if first is None:
        return
    try:
        generator = start(msgspec.json.decode(first, type=Assignment))
    except (OSError, ValueError, OverflowError) as error:
        return write({"number": 0, "phase": "failed", "reason": _sentence(error)})
    try:
        write({"number": 0, "phase": "opening"})
        for line in source:
            asked = json.loads(line)
            try:
                found = generator.respond(asked)
            except (OSError, RuntimeError) as error:
                found = {"phase": "failed", "reason": _sentence(error)}
            write({"number": asked["number"]} | found)
    finally:
        generator.end()


def _now_s() -> float:
    return clock.now_ns() / 1e9


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
