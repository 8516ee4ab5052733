"""A fleet in network namespaces: a partition, and delay and loss where the kernel has them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fleet.conftest import LOAD_S, Processes, result
from fleet.test_fleet import is_there
from support.server import Server, children
from support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

HERE, THERE = "10.213.77.1", "10.213.77.2"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@dataclass
class Network:
    """Two namespaces with a cable between them."""

    here: str
    there: str

    def inside(self, name: str) -> tuple[str, ...]:
        """Return what runs a program in a namespace."""
        return ("ip", "netns", "exec", name)

    def cut(self) -> None:
        """Pull the cable."""
        ip("-n", self.there, "link", "set", "eth", "down")

    def disturb(self, *how: str) -> bool:
        """Delay or lose packets; return whether the kernel can."""
        words = ["tc", "-n", self.there, "qdisc", "add", "dev", "eth", "root", "netem", *how]
        return subprocess.run(words, capture_output=True).returncode == 0


@pytest.fixture
def network() -> Iterator[Network]:
    """Return two namespaces."""
    if os.geteuid() or not shutil.which("ip"):
        pytest.skip("network namespaces need root, and the command ip")
    name = uuid.uuid4().hex[:6]
    made = Network(f"here-{name}", f"there-{name}")
    try:
        ip("netns", "add", made.here)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespace: {error.stderr.decode().strip()}")
    try:
        ip("netns", "add", made.there)
        ip(
            "-n",
            made.here,
            "link",
            "add",
            "eth",
            "type",
            "veth",
            "peer",
            "eth",
            "netns",
            made.there,
        )
        for each, address in ((made.here, HERE), (made.there, THERE)):
            ip("-n", each, "address", "add", f"{address}/24", "dev", "eth")
            ip("-n", each, "link", "set", "eth", "up")
            ip("-n", each, "link", "set", "lo", "up")
        yield made
    finally:
        for each in (made.here, made.there):
            subprocess.run(["ip", "netns", "delete", each], capture_output=True)


@pytest.fixture
def secret(tmp_path: Path) -> str:
    """Return a file with a secret, without which agents do not listen here."""
    file = tmp_path / "fleet.secret"
    file.write_text("a secret of this test\n")
    return str(file)


class ServerProcess(Server):
    """A server in a namespace."""


@pytest.fixture
def counting(network: Network, processes: Processes, applications: Path) -> Server:
    """Return a server that counts its responses, in the first namespace."""
    target = str(applications / "load" / "counting.py")
    arguments = [target, "--host", HERE, "--port", "0"]
    server = processes.run(ServerProcess, arguments, network.inside(network.here))
    server.urls = server.wait_line(r"serving \S+ on (\S.*) \(")[1].split(", ")
    return server


def asked_counts(network: Network, server: Server) -> dict[str, int]:
    """Ask the server what it has responded to, from its namespace."""
    code = (
        f"import urllib.request as r; print(r.urlopen('{server.urls[0]}/counts').read().decode())"
    )
    words = [*network.inside(network.here), "python3", "-c", code]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    found: dict[str, int] = json.loads(done.stdout)
    return found


def test_a_partition_makes_the_result_invalid_and_ends_the_load(
    network: Network, processes: Processes, counting: Server, secret: str
) -> None:
    here, there = network.inside(network.here), network.inside(network.there)
    _, scheduler = processes.scheduler(HERE, here)
    allowed = ("--allow", f"{HERE}/32", "--secret-file", secret)
    processes.agent(scheduler, "a", *allowed, within=here)
    apart = processes.agent(scheduler, "b", *allowed, within=there)
    url = f"{counting.urls[0]}/page/a"
    run = processes.load(
        *(url, "--fleet", scheduler, "--secret-file", secret, "-c", "4", "-d", "120s", "--json"),
        within=here,
    )
    run.wait_line("requests/s, p50", LOAD_S)
    [generator] = children(apart.pid)
    network.cut()
    code, page, _ = run.ended()
    found = json.loads(page)
    assert code == 4
    assert found["invalid"][0].startswith("agent b was lost: it ")
    assert found["ok"] == found["fleet"]["agents"][0]["ok"] > 0
    wait_until(lambda: not is_there(generator), 90)


def test_delay_and_loss_change_no_count(
    network: Network, processes: Processes, counting: Server, secret: str
) -> None:
    if not network.disturb("delay", "20ms", "loss", "1%"):
        pytest.skip("this kernel has no netem")
    here, there = network.inside(network.here), network.inside(network.there)
    _, scheduler = processes.scheduler(HERE, here)
    allowed = ("--allow", f"{HERE}/32", "--secret-file", secret)
    processes.agent(scheduler, "a", *allowed, within=here)
    processes.agent(scheduler, "b", *allowed, within=there)
    url = f"{counting.urls[0]}/page/a"
    run = processes.load(
        *(url, "--fleet", scheduler, "--secret-file", secret, "-n", "501", "-c", "10", "--json"),
        within=here,
    )
    found = result(run.ended())
    assert (found["ok"], found["failed"]) == (501, 0)
    assert asked_counts(network, counting) == {"a": 501}
    first, second = found["fleet"]["agents"]
    assert second["clock_uncertainty_us"] >= 9_000 > first["clock_uncertainty_us"]


def test_counts_agree_across_namespaces(
    network: Network, processes: Processes, counting: Server, secret: str
) -> None:
    here, there = network.inside(network.here), network.inside(network.there)
    _, scheduler = processes.scheduler(HERE, here)
    allowed = ("--allow", f"{HERE}/32", "--secret-file", secret)
    processes.agent(scheduler, "a", *allowed, within=here)
    processes.agent(scheduler, "b", *allowed, within=there)
    url = f"{counting.urls[0]}/page/a"
    run = processes.load(
        *(url, "--fleet", scheduler, "--secret-file", secret, "-n", "1501", "-c", "10", "--json"),
        within=here,
    )
    found = result(run.ended())
    assert (found["ok"], found["failed"]) == (1501, 0)
    assert asked_counts(network, counting) == {"a": 1501}
