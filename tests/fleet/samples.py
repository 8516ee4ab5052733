"""What the tests of fleets share: plans, orders, and members of a run."""

from __future__ import annotations

from typing import Any

import msgspec

from bolide.fleet import wire
from bolide.fleet.clock import Offset
from bolide.fleet.verdict import Member
from load.samples import report

REQUEST: dict[str, Any] = {
    "method": "POST",
    "target": "/items",
    "host": "shop.test:81",
    "field_lines": [("X-A", "\u00e9"), ("x-a", "2")],
    "content": b"\x00\xff",
    "weight": 3,
    "expected_status": 201,
    "expected_length": None,
    "expected_content": b"no",
    "is_any_length": True,
    "is_template": False,
}


def plan(**changes: Any) -> dict[str, Any]:
    """Make a plan as `bolide load` makes it for a fleet."""
    made: dict[str, Any] = {
        "address": "shop.test:81",
        "tls": None,
        "threads": 1,
        "connections": 100,
        "pipeline_depth": 1,
        "streams": 1,
        "is_persistent": True,
        "http_version": "1.1",
        "websocket": None,
        "source_addresses": [],
        "cpus": [],
        "is_sleepless": False,
        "requests": [REQUEST],
        "ramp_up_s": 0.0,
        "warm_up_s": 0.0,
        "timeout_s": 5.0,
        "deadline_s": None,
        "rate_per_s": None,
        "duration_s": 2.0,
    }
    return made | changes


def order(**changes: Any) -> wire.Order:
    """Make the order of the first of two agents."""
    given = plan() | {"host": "shop.test", "port": 81, "threads_before": 0, "threads_all": 2}
    for key in ("address", "cpus", "source_addresses"):
        del given[key]
    return msgspec.convert(given | changes, wire.Order)


def description(name: str = "a") -> wire.Description:
    """Make an agent's description."""
    limits = wire.Limits(
        allowed=["127.0.0.0/8"],
        ports=[],
        connections_max=10,
        threads_max=4,
        duration_s_max=5.0,
        rate_per_s_max=None,
    )
    return wire.Description(
        name=name,
        host="h",
        processors=2,
        kernel="Linux 6",
        processor="p",
        memory_bytes=1 << 33,
        python="3.11",
        is_release_build=True,
        limits=limits,
    )


def member(name: str = "a", **changes: Any) -> Member:
    """Make an agent of a run that has a report; `changes` are those of the report."""
    made = Member(f"tcp://{name}", description(name), Offset(0, 1_000_000), order())
    given = {
        "connections_max": 50,
        "generator_runnable": 0.6,
        "generator_waited": 0.1,
        "start_late_us": 100.0,
        "achieved_share": None,
    }
    made.report = report(**(given | changes))
    return made
