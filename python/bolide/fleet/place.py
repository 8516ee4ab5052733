"""Where `bolide load --fleet` generates its load: what `bolide.load.place` needs of a fleet."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from bolide import quantity
from bolide.config.address import Address
from bolide.errors import ConfigError
from bolide.fleet import wire
from bolide.fleet.engine import FleetEngine, expected, offsets
from bolide.fleet.link import Link
from bolide.fleet.verdict import Member
from bolide.load import destination
from bolide.load.destination import Destination
from bolide.load.options import Options

AGENTS_MAX = 64
_LOCAL = re.compile(r"local:([0-9]{1,3})")
_SCHEDULER = re.compile(r"(?:tcp|tls)://.+:[0-9]{1,5}")
_ELSEWHERE = {
    "proxy": "a proxy hides the target from the agents' limits; load it without a fleet",
    "source_addresses": "--source is an address of one machine; leave it out with --fleet",
    "cpus": "--cpus are processors of one machine; start agents with `taskset -c` instead",
    "certificate": "--cert has a key that is not sent to agents; leave it out with --fleet",
}


class Fleet:
    """Agents, and how load is generated on them."""

    def __init__(self, link: Link) -> None:
        """Find the agents.

        Raises:
            ConfigError: there is none, or one has another version.
            Error: one does not respond.
        """
        self._link = link
        addresses = link.agents()
        if not addresses:
            raise ConfigError("--fleet: there are no agents; start some with `bolide agent`")
        hello = wire.encode(wire.Hello())
        replies = link.call(dict.fromkeys(addresses, hello))
        found = [expected(each, replies[each], wire.Description) for each in addresses]
        known = zip(addresses, found, offsets(link, addresses), strict=True)
        self._members = [Member(*each) for each in known]

    def find(self, options: Options) -> Destination:
        """Parse the URLs; the agents resolve their names.

        Raises:
            ConfigError: an option does not suit several machines.
        """
        for name, text in _ELSEWHERE.items():
            if getattr(options, name):
                raise ConfigError(text)
        if options.urls and options.urls[0].startswith("unix:"):
            raise ConfigError(f"{options.urls[0]!r} is on one machine; give a URL to a fleet")
        if options.pattern == "broadcast":
            raise ConfigError("--pattern broadcast needs one thread; leave out --fleet")
        return destination.find(options.urls, options.target, locate=_unresolved)

    def make_engine(self, plan: dict[str, Any]) -> FleetEngine:
        """Return the engine for a run of the plan."""
        return FleetEngine(plan, self._link, self._members)

    def shared_processors(self, plan: dict[str, Any]) -> list[int]:
        """Return nothing: the agents' machines are not looked at."""
        return []

    def lines(self, report: dict[str, Any]) -> list[str]:
        """Return a table of the agents of a run."""
        return table(report["fleet"])


def table(fleet: dict[str, Any]) -> list[str]:
    """Format a line for each agent, and how well they started together."""
    heads = ("agent", "requests/s", "responses", "failed", "CPU", "start")
    rows = [heads, *(_row(agent) for agent in fleet["agents"])]
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    lines = []
    for row in rows:
        first, *others = (cell for cell in row)
        cells = [f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("   ".join([f"{first:{widths[0]}}", *cells]).rstrip())
    if fleet["start_skew_us"] is not None:
        between, uncertain = fleet["start_skew_us"], fleet["start_skew_uncertainty_us"]
        lines.append(
            f"starts at most {quantity.latency_text(between)} apart, as far as the clocks are "
            f"known (to {quantity.latency_text(uncertain)})"
        )
    return lines


def _row(agent: dict[str, Any]) -> tuple[str, ...]:
    name = agent["name"] if agent["host"] in agent["name"] else f"{agent['name']}@{agent['host']}"
    if agent["ok"] is None:
        return (name, "-", "-", "-", "-", "lost")
    late_us = agent["start_late_us"]
    return (
        name,
        f"{agent['requests_per_s']:,.1f}",
        f"{agent['ok']:,}",
        f"{agent['failed']:,}",
        f"{agent['generator_cpu']:.0%}",
        "-" if late_us is None else f"+{quantity.latency_text(late_us)}",
    )


def _unresolved(name: str, port: int, url: str) -> str:
    return str(Address(name, port))


@contextlib.contextmanager
def opened(fleet: str) -> Iterator[Fleet]:
    """Connect to the fleet that an option names: `local:N`, or a scheduler's address.

    Raises:
        ConfigError: the option is neither, or Dask is not installed.
        Error: the scheduler, or an agent, cannot be reached.
    """
    local = _LOCAL.fullmatch(fleet)
    if local is None and not _SCHEDULER.fullmatch(fleet):
        raise ConfigError(f"--fleet: {fleet!r} is not a fleet; give local:N or tcp://HOST:PORT")
    if local is not None:
        count = int(local[1])
        if not 0 < count <= AGENTS_MAX:
            raise ConfigError(f"--fleet: {fleet!r} has not 1 to {AGENTS_MAX} agents")
        from bolide.fleet.local import started

        with started(count) as link:
            yield Fleet(link)
        return
    from bolide.fleet.dask import DaskLink

    with contextlib.closing(DaskLink(fleet)) as link:
        yield Fleet(link)
