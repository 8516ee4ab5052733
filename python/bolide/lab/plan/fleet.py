"""A race whose load a fleet generates: at which address, and which loads it cannot generate."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from bolide.errors import ConfigError
from bolide.lab.matching import fits
from bolide.lab.plan import substitute
from bolide.lab.plan.contestant import Contestant
from bolide.lab.record import schema
from bolide.lab.record.schema import Study, Workload, with_workloads
from bolide.lab.tools import Reading
from bolide.lab.tools.fleet import Fleet, InvalidLoadError

LOOPBACK = "127.0.0.1"
"""Where servers listen for a load from the same machine."""
CONTENT_BYTES_MAX = 16 << 20
"""Longest content of a request or a response that is sent to agents."""
ELSEWHERE = "runs on one machine"
"""Why another tool than `bolide load` generates no load of a fleet."""


@dataclass(frozen=True)
class Joined:
    """A fleet whose agents have loaded a server of this machine."""

    fleet: Fleet
    described: schema.Fleet

    @property
    def threads_all(self) -> int:
        """Return how many threads have a processor each, where every agent has as many."""
        each = min(agent.cpus or 1 for agent in self.described.agents)
        return each * len(self.described.agents)

    @property
    def near(self) -> list[str]:
        """Return the names of the agents on this machine, as far as host names show it."""
        here = socket.gethostname()
        return [each.name for each in self.described.agents if each.host == here]

    def refuse_others(self, reading: Reading) -> None:
        """Refuse a load by other machines than those that the race has described.

        Raises:
            InvalidLoadError: they are.
        """
        use = msgspec.convert(reading.fleet, schema.FleetUse)
        known = {each.machine for each in self.described.agents}
        agents = (each.machine for each in use.agents)
        if others := [each.name for each in agents if each.machine not in known]:
            names = ", ".join(others)
            reason = f"{names} run on other machines than the agents that the race has described"
            raise InvalidLoadError(reason, reading.fleet or {})


def server_address(where: str, given: str | None) -> str:
    """Return the address at which servers listen, so that the agents reach it.

    Raises:
        ConfigError: it is no address of this machine, or agents elsewhere cannot reach it.
    """
    is_local = Fleet(where).is_local
    if given is None:
        if is_local or "://" not in where:  # `bolide load` says what a fleet is
            return LOOPBACK
        raise ConfigError(
            f"--fleet: the agents of {where} need an address at which they reach this machine;"
            " give one like --server-address 10.0.0.5"
        )
    try:
        address = ipaddress.IPv4Address(given)
    except ValueError:
        raise ConfigError(f"--server-address: {given!r} is not an IPv4 address") from None
    if not _is_own(address):
        raise ConfigError(f"--server-address: {given} is not an address of this machine")
    if address.is_loopback and not is_local and not _is_loopback(where):
        raise ConfigError(
            f"--server-address: {given} is reached from this machine only, and the agents of"
            f" {where} run on others; give the address of its network"
        )
    return str(address)


def _is_own(address: ipaddress.IPv4Address) -> bool:
    if address.is_unspecified or address.is_multicast:
        return False
    with socket.socket() as probe:
        try:
            probe.bind((str(address), 0))
        except OSError:
            return False
    return True


def _is_loopback(where: str) -> bool:
    """Return whether a scheduler is reached from this machine only."""
    host = where.partition("://")[2].rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def cannot_listen(contestant: Contestant, address: str) -> str:
    """Return why a contestant does not listen at an address; "" if it does."""
    if address == LOOPBACK:
        return ""
    entry = contestant.entry
    texts = (*entry.command, *entry.environment.values(), *contestant.files.values())
    if any("{host}" in text for text in texts):
        return ""
    return f"it chooses its address itself, so it does not listen at {address}"


def fitting(
    study: Study, wanted: Sequence[str], joined: Joined
) -> tuple[Study, tuple[str, ...], list[str]]:
    """Return a study with the loads that a fleet generates, the wanted names, and what changed.

    Raises:
        ConfigError: it can generate none of the wanted ones.
    """
    patterns = tuple(wanted) or ("*",)
    left = [(each, refusal(each, joined)) for each in study.workloads]
    kept = [each for each, reason in left if not reason]
    names = {each.name for each in kept}
    kept = [each for each in kept if not each.maximum or each.maximum in names]
    notes = [
        f"{each.name} is left out: {reason}"
        for each, reason in left
        if reason and any(fits(each.name, text) for text in patterns)
    ]
    if len(kept) < len(names):
        notes.append("the open loop is left out: its maxima are not measured")
    found, names_left, taken = substitute.with_tool(
        with_workloads(study, kept), wanted, lambda tool: tool == substitute.OWN, ELSEWHERE
    )
    if not any(fits(each.name, text) for each in found.workloads for text in names_left or ("*",)):
        raise ConfigError(f"the fleet can generate no load; {'; '.join(notes) or 'none is left'}")
    return found, names_left, [*notes, *taken]


def refusal(workload: Workload, joined: Joined) -> str:
    """Return why a fleet cannot generate a load; "" if it can, at least by `bolide load`."""
    agents = len(joined.described.agents)
    contents = (workload.content_bytes, workload.file_bytes, len(workload.content or ""))
    longest = max(each or 0 for each in contents)
    if workload.tool == "hold":
        return "hold opens its connections from one machine"
    if workload.sysctls and not joined.fleet.is_local:
        return "its network namespace has no network, so agents do not reach its server"
    if workload.messages == "broadcast":
        return "one thread sends and receives all messages of a broadcast"
    if workload.connections < agents:
        return f"it has fewer connections ({workload.connections}) than the fleet agents ({agents})"
    if longest > CONTENT_BYTES_MAX:
        return f"content of {longest:,} bytes is not sent to agents"
    return ""
