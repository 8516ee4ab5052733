"""Pods that are replaced under load, with the manifests' commands, variables, probes and times."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.dockerfile import stages
from deploy.files import manifests, pod, variables
from deploy.ledger import Ledger
from support.client import Connection
from support.server import Server, as_address
from support.waiting import wait_until

pytestmark = pytest.mark.slow

POD = pod(manifests())
(CONTAINER,) = POD["containers"]
BEFORE_TERM_S = CONTAINER["lifecycle"]["preStop"]["sleep"]["seconds"]
REMOVAL_S = BEFORE_TERM_S - 1
"""When the last proxy knows that a pod ends: late, but in time."""
STOP = signal.Signals[stages()[-1].last("STOPSIGNAL")]
UPDATES = 2
BATCH = 100


class Pod(Server):
    """A pod, as far as its process, its probes and the signals of the kubelet are concerned."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        own = {"PORT": "0", "BOLIDE_MANAGEMENT": "0.0.0.0:0"}
        environ = {**stages()[-1].environment(), **variables(CONTAINER), **own, **env}
        environ.pop("PATH")
        super().__init__(stages()[-1].command()[2:], folder, environ)
        self.management = as_address(self.wait_line(r"management on (http://[\d.:]+)")[1])

    def passes(self, name: str) -> bool:
        """Make the request of a probe."""
        probe = CONTAINER[name]["httpGet"]
        with Connection(self.management, timeout_s=CONTAINER[name]["timeoutSeconds"]) as client:
            host = f"{self.management[0]}:{self.management[1]}"
            client.send(f"GET {probe['path']} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            return 200 <= client.read().status < 400


class Service:
    """The pods to which a proxy connects, as far as it knows."""

    def __init__(self) -> None:
        self.addresses: list[Any] = []

    def choose(self) -> Any:
        """Return the address of one of them."""
        return random.choice(self.addresses)  # noqa: S311


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[[Ledger], Pod]]:
    """Return a function that runs a pod until it is ready."""
    pods: list[Pod] = []

    def run(ledger: Ledger) -> Pod:
        pods.append(Pod(tmp_path, ledger.environ))
        for name in ("startupProbe", "readinessProbe", "livenessProbe"):
            wait_until(lambda name=name: pods[-1].passes(name), patience_s=30)
        return pods[-1].wait_ready()

    yield run
    for each in pods:
        each.close()


def serve_more(ledger: Ledger) -> None:
    """Let the load go on for a while."""
    due = ledger.finished() + BATCH
    wait_until(lambda: ledger.finished() > due, patience_s=30)


def test_an_update_loses_no_request(run: Callable[[Ledger], Pod], tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    service = Service()
    old = run(ledger)
    service.addresses.append(old.address)
    passing = threading.Event()
    with ledger.load(service.choose):
        for _ in range(UPDATES):
            serve_more(ledger)
            new = run(ledger)
            service.addresses.append(new.address)
            serve_more(ledger)
            passing.wait(REMOVAL_S)  # preStop runs meanwhile
            service.addresses.remove(old.address)
            passing.wait(BEFORE_TERM_S - REMOVAL_S)
            assert old.passes("livenessProbe")
            old.signal(STOP)
            left_s = POD["terminationGracePeriodSeconds"] - BEFORE_TERM_S
            assert old.process.wait(timeout=left_s) == 0
            old = new
        serve_more(ledger)
    old.signal(STOP)
    assert old.wait() == 0
    ledger.check()


def test_a_pod_that_ends_before_proxies_know_it_loses_requests(
    run: Callable[[Ledger], Pod], tmp_path: Path
) -> None:
    """Why preStop waits, and that this ledger would show it."""
    ledger = Ledger(tmp_path)
    service = Service()
    old, new = run(ledger), run(ledger)
    service.addresses += [old.address, new.address]
    with ledger.load(service.choose):
        serve_more(ledger)
        old.signal(STOP)
        assert old.wait() == 0
        wait_until(lambda: any(client.lost for client in ledger.clients))
        service.addresses.remove(old.address)
        serve_more(ledger)
    with pytest.raises(AssertionError, match="refused"):
        ledger.check()
