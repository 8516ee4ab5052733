"""Where servers listen for a fleet, and which loads of a study it generates."""

from __future__ import annotations

import re
import socket
from typing import Any

import msgspec
import pytest

from bolide.errors import ConfigError
from bolide.lab.plan import contestant, study
from bolide.lab.plan.fleet import Joined, cannot_listen, fitting, refusal, server_address
from bolide.lab.record import schema
from bolide.lab.tools.fleet import Fleet
from lab import tiny_race
from lab.tiny_race import liar, renamed, workload

REMOTE = "tcp://10.0.0.1:8786"


def joined(where: str = REMOTE, agents: int = 2, address: str = "10.0.0.5") -> Joined:
    """Return a fleet of agents with four processors each, on machines of their own."""
    names = [f"load{number}" for number in range(agents)]
    made = tuple(schema.Agent(name=name, host=name, cpus=4) for name in names)
    described = schema.Fleet(where=where, server_address=address, agents=made)
    return Joined(Fleet(where, agents), described)


def test_a_local_fleet_loads_loopback() -> None:
    assert server_address("local:2", None) == "127.0.0.1"
    assert server_address("local:2", "127.0.0.2") == "127.0.0.2"
    assert server_address("tcp://127.0.0.1:8786", "127.0.0.1") == "127.0.0.1"
    assert server_address("tcp://localhost:8786", "127.0.0.1") == "127.0.0.1"


@pytest.mark.parametrize(
    ("where", "given", "message"),
    [
        (REMOTE, None, "give one like --server-address 10.0.0.5"),
        ("tcp://127.0.0.1:8786", None, "give one like --server-address 10.0.0.5"),
        (REMOTE, "127.0.0.1", "127.0.0.1 is reached from this machine only"),
        (REMOTE, "shop.test", "'shop.test' is not an IPv4 address"),
        (REMOTE, "::1", "'::1' is not an IPv4 address"),
        (REMOTE, "224.0.0.1", "224.0.0.1 is not an address of this machine"),
        (REMOTE, "0.0.0.0", "0.0.0.0 is not an address of this machine"),  # noqa: S104
        (REMOTE, "198.51.100.1", "198.51.100.1 is not an address of this machine"),
    ],
)
def test_an_address_that_agents_do_not_reach_is_refused(
    where: str, given: str | None, message: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        server_address(where, given)


def test_every_contestant_of_ours_listens_where_it_is_asked_to() -> None:
    assert {cannot_listen(each, "10.0.0.5") for each in contestant.own().values()} == {""}


def test_a_contestant_with_an_address_of_its_own_is_for_loopback() -> None:
    entry = liar("honest").entry
    fixed = renamed(liar("honest"), "fixed")
    command = tuple(word.replace("{host}", "127.0.0.1") for word in entry.command)
    fixed = msgspec.structs.replace(
        fixed, entry=msgspec.structs.replace(fixed.entry, command=command)
    )
    assert cannot_listen(fixed, "127.0.0.1") == ""
    says = "it chooses its address itself, so it does not listen at 10.0.0.5"
    assert cannot_listen(fixed, "10.0.0.5") == says


@pytest.mark.parametrize(
    ("load", "reason"),
    [
        ({}, ""),
        ({"tool": "wrk"}, ""),  # which `bolide load` generates instead
        ({"rate_per_s": 100.0}, ""),
        ({"finds": "p99 < 10ms"}, ""),
        ({"messages": "echo"}, ""),
        ({"tls": "full", "is_persistent": False}, ""),
        ({"connections": 2}, ""),
        ({"connections": 1}, "it has fewer connections (1) than the fleet agents (2)"),
        ({"tool": "hold", "requests_total": 4}, "hold opens its connections from one machine"),
        ({"messages": "broadcast"}, "one thread sends and receives all messages of a broadcast"),
        (
            {"sysctls": (("net.ipv4.tcp_syncookies", "0"),)},
            "its network namespace has no network, so agents do not reach its server",
        ),
        ({"content_bytes": 16 << 20}, ""),
        ({"file_bytes": 100_000_000}, "content of 100,000,000 bytes is not sent to agents"),
    ],
)
def test_what_a_fleet_cannot_generate(load: dict[str, Any], reason: str) -> None:
    assert refusal(workload(**load), joined()) == reason


def test_a_network_namespace_has_agents_of_its_own() -> None:
    settings = (("net.ipv4.tcp_syncookies", "0"),)
    assert refusal(workload(sysctls=settings), joined("local:2")) == ""


def test_other_tools_loads_are_taken_over_and_the_rest_has_a_reason() -> None:
    plan = tiny_race.study(
        workload(name="short-wrk", tool="wrk"),
        workload(name="one-bolide", connections=1),
        workload(name="open-own25-bolide", maximum="one-bolide", rate_of="own", rate_share=0.25),
    )
    found, wanted, notes = fitting(plan, (), joined())
    assert [(each.name, each.tool) for each in found.workloads] == [("short-bolide", "bolide")]
    assert (wanted, notes) == (
        (),
        [
            "one-bolide is left out: it has fewer connections (1) than the fleet agents (2)",
            "the open loop is left out: its maxima are not measured",
            "wrk runs on one machine: bolide load generates short",
        ],
    )
    _, wanted, notes = fitting(plan, ("short-*",), joined())
    assert wanted == ("short-*", "short-bolide")
    assert notes == [
        "the open loop is left out: its maxima are not measured",
        "wrk runs on one machine: bolide load generates short",
    ]
    with pytest.raises(ConfigError, match="can generate no load; one-bolide is left out"):
        fitting(plan, ("one-*",), joined())


@pytest.mark.parametrize("name", study.names())
def test_every_study_has_loads_for_a_fleet(name: str) -> None:
    plan = study.load(name, joined().threads_all).study
    found, _, notes = fitting(plan, (), joined())
    assert found.workloads and {each.tool for each in found.workloads} == {"bolide"}
    kept = {each.name for each in found.workloads}
    assert all(each.workload in kept for each in found.requirements)
    changed = {each.tool for each in plan.workloads} - {"bolide"}
    assert notes or not changed


def test_threads_are_those_of_all_agents() -> None:
    assert joined(agents=3).threads_all == 12
    fleet = Fleet(REMOTE, 3)
    assert [fleet.threads_each(*each) for each in ((12, 100), (1, 100), (13, 100))] == [4, 1, 5]
    assert fleet.threads_each(12, 7) == 2


def test_agents_on_the_servers_machine_are_named() -> None:
    assert joined().near == []
    here = schema.Agent(name="near", host=socket.gethostname())
    described = schema.Fleet(where=REMOTE, server_address="10.0.0.5", agents=(here,))
    assert Joined(Fleet(REMOTE, 1), described).near == ["near"]
