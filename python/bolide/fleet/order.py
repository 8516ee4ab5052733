"""Converts a plan of `bolide load` to orders for agents, and these to plans of generators."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from bolide.errors import ConfigError
from bolide.fleet.limits import RUN_HOURS_MAX, RUN_S_MAX
from bolide.fleet.wire import Order

Plan = dict[str, Any]
NOT_SENT = {"address", "cpus", "source_addresses", "tls"}
"""Keys of a plan that an order has in another form, or that belong to one machine."""


def orders(plan: Plan, agents: int) -> list[Order]:
    """Divide a plan evenly among agents, each with the plan's number of threads.

    Raises:
        ConfigError: there are fewer connections than threads, the run is too long, or a file cannot
            be read.
    """
    threads = plan["threads"]
    refuse_few(plan["connections"], threads, agents)
    host, _, port = plan["address"].rpartition(":")
    given = {key: value for key, value in plan.items() if key not in NOT_SENT}
    given |= {"host": host.strip("[]"), "port": int(port), "tls": _tls(plan["tls"])}
    given["threads_all"] = threads * agents
    parts = (given | {"threads_before": threads * index} for index in range(agents))
    made = [msgspec.convert(part, Order) for part in parts]
    if made[0].least_s > RUN_S_MAX:
        raise ConfigError(
            f"a load of a fleet takes {RUN_HOURS_MAX} hours at most, because its result has a "
            "histogram for each second; run several"
        )
    return made


def refuse_few(connections: int, threads: int, agents: int) -> None:
    """Refuse connections of which a thread of an agent would have none.

    Raises:
        ConfigError: they are too few.
    """
    if threads * agents > connections:
        raise ConfigError(
            f"--connections: {connections} are fewer than the threads of {agents} agents with "
            f"{threads} each; give at least {threads * agents}"
        )


def engine_plan(order: Order, address: str, authorities: str | None) -> Plan:
    """Return the plan for `_core.Load`; `authorities` is the file with those of the order."""
    plan: Plan = msgspec.structs.asdict(order)
    before, every = plan.pop("threads_before"), plan.pop("threads_all")
    del plan["host"], plan["port"]
    plan |= {
        "address": address,
        "is_gated": True,
        "part": {"threads_before": before, "threads_all": every},
        "requests": [msgspec.structs.asdict(each) for each in order.requests],
        "websocket": msgspec.structs.asdict(order.websocket) if order.websocket else None,
        "stages": _given(order.stages or ()) or None,
    }
    if order.tls:
        plan["tls"] = msgspec.structs.asdict(order.tls) | {"authorities": authorities}
    return plan


def _given(stages: Sequence[msgspec.Struct]) -> list[dict[str, Any]]:
    """Return stages with the keys that they have."""
    tables = [msgspec.structs.asdict(each) for each in stages]
    return [{key: value for key, value in each.items() if value is not None} for each in tables]


def _tls(tls: dict[str, Any] | None) -> dict[str, Any] | None:
    """Replace the file of authorities by its content, so that all agents trust the same ones."""
    if tls is None:
        return None
    sent = {key: value for key, value in tls.items() if key != "pair"}
    if tls["authorities"] is not None:
        try:
            sent["authorities"] = Path(tls["authorities"]).read_bytes()
        except OSError as error:
            raise ConfigError(f"cannot read {tls['authorities']}: {error.strerror}") from None
    return sent
