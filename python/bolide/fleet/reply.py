"""Reads the replies of agents: of the expected kind, or an error that names the agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from bolide.errors import ConfigError, Error
from bolide.fleet import clock, wire
from bolide.fleet.clock import Offset, Sample
from bolide.fleet.link import Link

Kind = TypeVar("Kind", bound=wire.Reply)

SAMPLES = 8
"""Readings of each clock before a run, and after it."""


def expected(name: str, octets: bytes | Exception, kind: type[Kind]) -> Kind:
    """Read a reply of the agent with this name.

    Raises:
        ConfigError: it refuses.
        Error: it does not respond, or with something else.
    """
    if isinstance(octets, Exception):
        made = ConfigError if isinstance(octets, ConfigError) else Error
        raise made(f"agent {name}: {octets}")
    try:
        found = wire.reply(octets)
    except wire.VersionError as error:
        raise ConfigError(f"agent {name} has {error}") from None
    except Error as error:
        raise Error(f"agent {name}: {error}") from None
    if isinstance(found, wire.Refusal):
        made = ConfigError if found.is_mistake else Error
        raise made(f"agent {name}: {found.reason}")
    if not isinstance(found, kind):
        raise Error(f"agent {name}: it sent {type(found).__name__} instead of {kind.__name__}")
    return found


def offsets(link: Link, agents: Mapping[str, str]) -> list[Offset]:
    """Measure how far the clocks of agents, by their addresses with their names, are from ours.

    Raises:
        Error: an agent does not respond.
    """
    return [offset_of(link, address, name) for address, name in agents.items()]


def offset_of(link: Link, address: str, name: str) -> Offset:
    """Measure how far the clock of one agent is from ours.

    Raises:
        Error: it does not respond.
    """
    octets = wire.encode(wire.Clock())
    samples = []
    for _ in range(SAMPLES):
        before_ns = clock.now_ns()
        reply = link.call({address: octets})[address]
        after_ns = clock.now_ns()
        theirs = expected(name, reply, wire.Time)
        samples.append(Sample(before_ns, theirs.now_ns, after_ns))
    return clock.offset(samples)
