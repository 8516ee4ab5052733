"""What the management listener has at each path.

| path | method | response |
| --- | --- | --- |
| /metrics | GET | OpenMetrics text, or that of Prometheus if `Accept` names only this |
| /health | GET | 200 if a worker serves or drains, otherwise 503 |
| /ready | GET | 200 if requests are served, 503 while the server starts or stops |
| /status | GET | JSON: the server, its workers, the options that are not defaults |
| /reload, /upgrade, /stop | POST | 202: the same as HUP, USR2 and TERM |
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from bolide import _core
from bolide.config.settings import table
from bolide.server.kernel import rss_bytes
from bolide.server.management import exposition
from bolide.server.management.counts import CAUSES, PREFIX, Family, Tally, by_family, families
from bolide.server.management.outcomes import COMPLETED, RESULTS, Outcomes
from bolide.server.management.request import NUMBER_FIELD, Reply, Request, sentence
from bolide.server.process.phase import Phase
from bolide.server.process.slot import State

if TYPE_CHECKING:
    from bolide.config.settings import Settings
    from bolide.server.process.slot import Worker
    from bolide.server.process.takeover import Inherited
    from bolide.server.workers import Workers

SECRET_OPTIONS = ("key", "key_password_file")
"""Options whose values are not shown: where secrets are."""
STATES = ("starting", "serving", "draining")
SHOWN = {
    Phase.STARTING: "starting",
    Phase.SERVING: "serving",
    Phase.RELOADING: "serving",
    Phase.UPGRADING: "serving",
    Phase.ENDING: "draining",
}
"""What clients need to know of the supervisor's phase."""
REQUESTS = f"{PREFIX}http_requests"
CONNECTIONS = f"{PREFIX}connections"
HELD, HELD_MAX = f"{PREFIX}held_bytes", f"{PREFIX}held_max_bytes"
METRICS = "/metrics"
Action = Callable[[], None]
Number = int | float


@dataclass(frozen=True, slots=True)
class Server:
    """What the pages know of the server."""

    workers: Workers
    tally: Tally
    name: Callable[[], str]
    """Its application."""
    settings: Callable[[], Settings]
    phase: Callable[[], Phase]
    reload: Action
    upgrade: Action
    stop: Action
    upgrade_hindrance: Callable[[], str]
    """Why an upgrade would end the service; "" if it would not."""
    reloads: Outcomes
    upgrades: Outcomes
    began_unix_s: float
    took_over: Inherited | None
    """From which process it has taken over; None if it was started otherwise."""


class Pages:
    """The responses."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._began_s = time.monotonic() - max(0.0, time.time() - server.began_unix_s)
        self._pages: dict[str, Callable[[], Reply]] = {
            "/health": self._health,
            "/ready": self._ready,
            "/status": self._status,
        }
        self._commands = {
            "/reload": self._reload,
            "/upgrade": self._upgrade,
            "/stop": self._stop,
        }

    def serve(self, request: Request) -> tuple[Reply, Action | None]:
        """Return the response to a request, and what to do after it."""
        page = self._pages.get(request.path)
        if request.path == METRICS:
            page = partial(self._metrics, request.fields.get("accept", ""))
        if page is not None:
            if request.method in ("GET", "HEAD"):
                return page(), None
            return sentence(405, "use GET or HEAD", Allow="GET, HEAD"), None
        if (command := self._commands.get(request.path)) is not None:
            if request.method == "POST":
                return command()
            return sentence(405, "this is a command; use POST", Allow="POST"), None
        known = ", ".join((METRICS, *self._pages, *self._commands))
        return sentence(404, f"not found; try {known}"), None

    @property
    def age_s(self) -> float:
        """How long ago the server was started, whatever became of the wall clock."""
        return time.monotonic() - self._began_s

    @property
    def _state(self) -> str:
        return SHOWN[self._server.phase()]

    def _count(self, *states: str) -> int:
        return sum(state_of(each) in states for each in self._server.workers)

    def _health(self) -> Reply:
        serving = self._count("serving", "draining")
        are = "worker is" if serving == 1 else "workers are"
        return sentence(200 if serving else 503, f"{serving} {are} serving")

    def _ready(self) -> Reply:
        if self._state != "serving":
            return sentence(503, f"not ready: {self._state}")
        if not self._count("serving"):
            return sentence(503, "not ready: no worker is serving")
        return sentence(200, self._state)

    def _metrics(self, accept: str) -> Reply:
        running = [each.counts for each in self._server.workers if each.counts is not None]
        counted = by_family(self._server.tally.totals(running))
        every = [*own_families(self._server), *counted.values()]
        if exposition.wants_plain(accept):
            text = exposition.plain_text(every)
            return Reply(200, text.encode(), exposition.PLAIN_CONTENT_TYPE)
        return Reply(200, exposition.text(every).encode(), exposition.CONTENT_TYPE)

    def _status(self) -> Reply:
        workers = self._server.workers
        status = {
            "version": _core.__version__,
            "pid": os.getpid(),
            "start_time_s": self._server.began_unix_s,
            "application": self._server.name(),
            "state": self._state,
            "is_reloading": workers.is_reloading,
            "is_upgrading": self._server.phase() is Phase.UPGRADING,
            "age_s": round(self.age_s, 3),
            "workers": [described(each) for each in workers],
            "exits": dict(self._server.tally.exits),
            "reloads": self._server.reloads.shown(),
            "upgrades": self._server.upgrades.shown(),
            "took_over": origin(self._server.took_over),
            "options": options_set(self._server.settings()),
        }
        content = json.dumps(status, indent=2).encode() + b"\n"
        return Reply(200, content, "application/json")

    def _reload(self) -> tuple[Reply, Action | None]:
        if self._state != "serving":
            return sentence(409, f"cannot reload while the server is {self._state}"), None
        if self._server.phase() is Phase.UPGRADING:
            return sentence(409, "cannot reload while the server is upgrading"), None
        number = str(self._server.reloads.begun + 1)  # it begins when this was sent
        return sentence(202, "reloading", **{NUMBER_FIELD: number}), self._server.reload

    def _upgrade(self) -> tuple[Reply, Action | None]:
        phase = self._server.phase()
        if phase is not Phase.SERVING:
            return sentence(409, f"cannot upgrade while the server is {phase.name.lower()}"), None
        if hindrance := self._server.upgrade_hindrance():
            return sentence(409, f"it cannot be upgraded: {hindrance}"), None
        number = str(self._server.upgrades.begun + 1)  # it begins when this was sent
        return sentence(202, "upgrading", **{NUMBER_FIELD: number}), self._server.upgrade

    def _stop(self) -> tuple[Reply, Action | None]:
        if self._state == "draining":
            return sentence(409, "it is stopping already"), None
        return sentence(202, "stopping"), self._server.stop


def own_families(server: Server) -> list[tuple[Family, Sequence[Number]]]:
    """Return what the supervisor itself counts."""
    states = [state_of(each) for each in server.workers]
    lag_s = max((busy_s(each) for each in server.workers), default=0.0)
    exits, reloads, upgrades = server.tally.exits, server.reloads.totals, upgrades_of(server)
    values: dict[str, Sequence[Number]] = {
        "bolide": [1],
        "start_time_seconds": [server.began_unix_s],
        "workers": [states.count(state) for state in STATES],
        "worker_exits": [exits[cause] for cause in CAUSES],
        "reloads": [reloads[result] for result in RESULTS],
        "upgrades": [upgrades[result] for result in RESULTS],
        "event_loop_lag_seconds": [lag_s],
    }
    return [(family, values[family.name.removeprefix(PREFIX)]) for family in supervisor_families()]


def upgrades_of(server: Server) -> Counter[str]:
    """Return how many upgrades there were, by result, with the one by which this process began."""
    return server.upgrades.totals + Counter({COMPLETED: int(server.took_over is not None)})


def supervisor_families() -> list[Family]:
    """Return the families that are not of workers."""
    causes = "; ".join(f"{cause}: {meaning}" for cause, meaning in CAUSES.items())
    version = (("version", (_core.__version__,)),)
    lag = (
        "The longest time for which a worker has now not looked for events; 0 if all wait for them."
    )
    return [
        Family(PREFIX.removesuffix("_"), "info", "", "The server's version.", version),
        Family(
            f"{PREFIX}start_time_seconds",
            "gauge",
            "seconds",
            "When the server was started, in seconds since 1970.",
        ),
        Family(f"{PREFIX}workers", "gauge", "", "Workers by state.", (("state", STATES),)),
        Family(
            f"{PREFIX}worker_exits",
            "counter",
            "",
            f"Workers that have ended, by cause. {causes}.",
            (("cause", tuple(CAUSES)),),
        ),
        Family(
            f"{PREFIX}reloads",
            "counter",
            "",
            "Reloads that have ended, by result.",
            (("result", RESULTS),),
        ),
        Family(
            f"{PREFIX}upgrades",
            "counter",
            "",
            "Upgrades that have ended, by result. A new process begins with its own.",
            (("result", RESULTS),),
        ),
        Family(f"{PREFIX}event_loop_lag_seconds", "gauge", "seconds", lag),
    ]


def all_families() -> list[Family]:
    """Return every family, in the order of the text."""
    return [*supervisor_families(), *families()]


def described(each: Worker) -> dict[str, Any]:
    """Return what the status shows of a worker."""
    numbers = by_family(each.counts.read()) if each.counts is not None else {}
    return {
        "number": each.number,
        "pid": each.child.pid,
        "state": state_of(each),
        "age_s": round(time.monotonic() - each.child.born, 3),
        "rss_bytes": rss_bytes(each.child.pid),
        "requests": sum(numbers[REQUESTS][1]) if numbers else 0,
        "connections": numbers[CONNECTIONS][1][0] if numbers else 0,
        "held_bytes": numbers[HELD][1][0] if numbers else 0,
        "held_bytes_max": numbers[HELD_MAX][1][0] if numbers else 0,
        "busy_s": round(busy_s(each), 3),
        "slow_routes": slow_routes(each),
    }


def slow_routes(each: Worker) -> list[dict[str, Any]]:
    """Return the routes of a worker that have slow requests, in no order.

    One that had lost its place is counted since it has one again.
    """
    found = each.counts.slow_routes() if each.counts is not None else []
    return [
        {
            "route": route,
            "requests": requests,
            "total_s": round(total_s, 3),
            "since_s": since_ms / 1000,
        }
        for route, requests, total_s, since_ms in found
    ]


def origin(took_over: Inherited | None) -> dict[str, Any] | None:
    """Return what the status shows of the process before, and of the upgrade."""
    if took_over is None:
        return None
    began, number = took_over.began_unix_s, str(took_over.number)
    return {"pid": took_over.pid, "start_time_s": began, "upgrade": number}


def state_of(each: Worker) -> str:
    """Return a worker's state, as metrics and status name it."""
    state = State.DRAINING if each.state is State.LEAVING else each.state
    return state.name.lower()


def busy_s(each: Worker) -> float:
    """Return for how long a worker has not looked for events; 0 if it waits for them."""
    since_ms = each.counts.busy_since_ms if each.counts is not None else 0
    return max(0.0, time.monotonic() - since_ms / 1000) if since_ms else 0.0


def options_set(settings: Settings) -> dict[str, Any]:
    """Return the options that are not defaults, without those that name secrets."""
    values = {option.name: _value(settings, option.name) for option in table()}
    return {
        option.name: _shown(values[option.name])
        for option in table()
        if values[option.name] != option.default and option.name not in SECRET_OPTIONS
    }


def _value(settings: Settings, name: str) -> Any:
    return settings.core[name] if name in settings.core else getattr(settings, name)


def _shown(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_shown(each) for each in value]
    return value if isinstance(value, bool | int | float | str) else str(value)
