"""A soak: servers of every interface, plain and with TLS, clients of every kind, a verdict."""

from __future__ import annotations

import multiprocessing
import signal
import subprocess
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing.context import SpawnProcess
from multiprocessing.synchronize import Event
from pathlib import Path

from faults.soak import clients, counts
from faults.soak.sampling import Process, Samples, grows
from faults.soak.trend import Trend
from support.server import APPLICATIONS, Server
from support.waiting import wait_until

TESTS = APPLICATIONS.parent
SETTLING_S = 60
"""How long after the traffic what it has left may still end."""
STOPPING_S = 120
"""How long a server has to stop: on a busy machine, more than its graceful time."""


@dataclass(frozen=True)
class Plan:
    """How long, and how much."""

    seconds: float
    sample_every_s: float = 10.0
    pause_s: float = 0.02
    interfaces: tuple[str, ...] = ("native", "asgi", "wsgi")
    workers: int = 2
    env: dict[str, str] = field(default_factory=dict)


@dataclass
class Outcome:
    """What was seen."""

    seconds: float
    complete: int
    trends: dict[tuple[str, str], Trend]
    samples: Samples
    reasons: list[str] = field(default_factory=list)
    """Why it failed; none if it did not."""


@dataclass(frozen=True)
class Served:
    """A server of the soak."""

    place: clients.Place
    server: Server

    def processes(self) -> list[Process]:
        """Return its processes, which are watched."""
        workers = enumerate(self.server.workers(), start=1)
        name, ledger = self.place.name, self.place.ledger / "application"
        return [
            Process(f"{name}, supervisor", self.server.pid, ledger),
            *(Process(f"{name}, worker {number}", pid, ledger) for number, pid in workers),
        ]


class Soak:
    """Servers and clients that run until the plan is done."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan, self.folder = plan, folder
        context = multiprocessing.get_context("spawn")
        self.over: Event = context.Event()
        self.may_go: Event = context.Event()
        self._context = context
        self._reasons: list[str] = []

    def pause_or_continue(self, *_: object) -> None:
        """Let the clients rest, or go on. The time in which they rest does not count."""
        self.may_go.clear() if self.may_go.is_set() else self.may_go.set()

    def run(self) -> Outcome:
        """Run to the end; return what was seen."""
        with ExitStack() as stack:
            served = [
                self._start(stack, interface, is_secure)
                for interface in self.plan.interfaces
                for is_secure in (False, True)
            ]
            processes = [process for each in served for process in each.processes()]
            wait_until(lambda: all(is_counting(each) for each in served))
            samples = Samples(processes)
            drivers = [self._drive(stack, each.place) for each in served]
            seconds = self._watch(samples)
            self.over.set()
            for driver in drivers:
                driver.join()
            self._settle(served, samples)
            self._stop(served)
        trends = samples.trends(seconds)
        complete = 0
        for each in served:
            ledger = each.place.ledger
            of_clients = counts.total(ledger / "clients")
            complete += sum(n for name, n in of_clients.items() if name.endswith(" complete"))
            self._reasons += [
                f"{each.place.name}, {wrong}"
                for wrong in counts.disagreements(of_clients, counts.total(ledger / "application"))
            ]
            if (failures := ledger / "failures").exists():
                self._reasons += failures.read_text().splitlines()[:10]
        self._reasons += grows(trends)
        return Outcome(seconds, complete, trends, samples, self._reasons)

    def _start(self, stack: ExitStack, interface: str, is_secure: bool) -> Served:
        name = f"{interface}, {'TLS' if is_secure else 'plain'}"
        ledger = self.folder / name.replace(", ", "-")
        ledger.mkdir(parents=True)
        # The clients give way to everything else on this machine, and must not be late for that.
        patience = ("--header-timeout-ms", "600000", "--tls-handshake-timeout-ms", "600000")
        tls = ("--certificate", "self-signed") if is_secure else ("--h2c",)
        options = ["--port", "0", "--workers", str(self.plan.workers), "--interface", interface]
        env = {"LEDGER": str(ledger / "application"), "PYTHONPATH": str(TESTS), **self.plan.env}
        server = Server(
            [f"{interface}.py", *options, "--threads", "8", *patience, *tls],
            APPLICATIONS / "soak",
            env,
        )
        stack.callback(server.close)
        address = server.wait_ready().address
        assert isinstance(address, tuple)
        place = clients.Place(name, interface, is_secure, address, ledger, self.plan.pause_s)
        return Served(place, server)

    def _drive(self, stack: ExitStack, place: clients.Place) -> SpawnProcess:
        driver = self._context.Process(
            target=clients.drive, args=(place, self.over, self.may_go), daemon=True
        )
        driver.start()
        stack.callback(driver.kill)
        return driver

    def _watch(self, samples: Samples) -> float:
        """Take samples while the clients run; return for how long they did."""
        self.may_go.set()
        active_s, last = 0.0, time.monotonic()
        due_s = self.plan.sample_every_s
        while active_s < self.plan.seconds:
            time.sleep(min(0.2, self.plan.sample_every_s))
            now = time.monotonic()
            active_s += now - last if self.may_go.is_set() else 0.0
            last = now
            if active_s >= due_s:
                due_s += self.plan.sample_every_s
                if ended := samples.take(active_s):
                    self._reasons += [f"{name} has ended" for name in ended]
                    break
        return active_s

    def _settle(self, served: list[Served], samples: Samples) -> None:
        """Wait until nothing of the traffic is left, and note what is."""

        def is_settled() -> bool:
            totals = [counts.total(each.place.ledger / "application") for each in served]
            is_even = all(
                total[name] == total[name.replace(" begun", " ended")]
                for total in totals
                for name in total
                if name.endswith(" begun")
            )
            return is_even and not samples.remain()

        try:
            wait_until(is_settled, patience_s=SETTLING_S)
        except AssertionError:
            self._reasons += samples.remain()

    def _stop(self, served: list[Served]) -> None:
        for each in served:
            each.server.signal(signal.SIGTERM)
        for each in served:
            name, server = each.place.name, each.server
            try:
                server.process.wait(timeout=STOPPING_S)
            except subprocess.TimeoutExpired:
                self._reasons.append(f"{name} has not ended {STOPPING_S} s after TERM")
                continue
            if (code := server.wait()) != 0:
                self._reasons.append(f"{name}: exit code {code}")
            odd = [line for line in server.lines if "panic" in line or "CRITICAL" in line]
            self._reasons += [f"{name}: {line.strip()}" for line in odd[:3]]


def is_counting(served: Served) -> bool:
    """Whether each worker has started to count its tasks."""
    paths = [each.ledger / str(each.pid) for each in served.processes()[1:]]
    needs_tasks = served.place.interface != "wsgi"
    return all(path.exists() and (not needs_tasks or counts.read(path)["tasks"]) for path in paths)
