"""Agents in this process, and a link to them on which a test decides what happens to messages."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

from bolide.fleet import wire
from bolide.fleet.agent import Agent
from bolide.fleet.engine import FleetEngine
from fleet.samples import plan as sample
from support.server import Server
from support.waiting import wait_until

Fault = Callable[[str, wire.Question], Exception | None]


class LocalLink:
    """Agents in a thread; `fault` may lose messages."""

    def __init__(self, agents: Mapping[str, Agent]) -> None:
        self._agents = dict(agents)
        self.fault: Fault = lambda address, question: None
        self.gone: set[str] = set()
        """Addresses of agents that have left."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def agents(self) -> dict[str, str]:
        there = {key: each for key, each in self._agents.items() if key not in self.gone}
        return {key: each.name for key, each in there.items()}

    def call(
        self, messages: Mapping[str, bytes], timeout_s: float = 5.0
    ) -> dict[str, bytes | Exception]:
        found: dict[str, bytes | Exception] = {}
        for address, octets in messages.items():
            failure = self.fault(address, wire.question(octets))
            found[address] = failure or self.sent(address, octets)
        return found

    def close(self) -> None:
        for agent in self._agents.values():
            self._run(agent.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def agent(self, address: str) -> Agent:
        return self._agents[address]

    def sent(self, address: str, octets: bytes) -> bytes:
        """Hand a message to an agent, whatever the fault is."""
        found: bytes = self._run(self._agents[address].respond(octets))
        return found

    def _run(self, awaited: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(awaited, self._loop).result(30)


def plan(server: Server, **changes: Any) -> dict[str, Any]:
    """Make the plan of a short run."""
    request = {
        "method": "GET",
        "target": "/page/a",
        "host": "x",
        "field_lines": [],
        "content": None,
        "weight": 1,
        "expected_status": None,
        "expected_length": None,
        "expected_content": b"page a",
        "is_any_length": False,
        "is_template": False,
    }
    address = server.urls[0].removeprefix("http://")
    given = {"address": address, "requests": [request], "connections": 6, "duration_s": 0.5}
    return sample(**(given | changes))


def await_end(engine: FleetEngine) -> None:
    """Wait until nothing runs any more."""
    wait_until(lambda: engine.wait(0.1), 30)


def run(engine: FleetEngine) -> dict[str, Any]:
    """Run to the end; return the report."""
    engine.start()
    await_end(engine)
    found: dict[str, Any] = json.loads(engine.report())
    return found


def has_begun(engine: FleetEngine) -> bool:
    """Return whether there is a response."""
    return bool(json.loads(engine.progress())["ok"])
