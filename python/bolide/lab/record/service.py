"""How many connections of a trial were served, and whether its latency agrees with its rate.

`bolide load` counts the responses of each connection. For the other tools, Little's law says how
many connections had a request in flight (`stats/littles_law.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from bolide.lab.record.schema import GeneratorUse, Published, Served, Trial, Workload
from bolide.lab.stats import littles_law

STARVED_SHARE_MAX = 0.05
"""Share of connections without a response above which a rate is that of the others."""
RESPONSES_MIN = 10
"""Responses per connection from which on counts alone say how evenly connections were served."""
FAIRNESS_MIN = 0.9
"""Jain's index below which connections were served unevenly."""
SERVED_SHARE_MIN = 0.5
"""Jain's index below which a rate is that of a few connections: k of n that share all responses
evenly have k/n, and those with one response and then none change that little."""
ERROR_SHARE_MAX = 0.0001
"""Share of failed requests above which there is no figure."""
NO_RESPONSE = ("timeout", "connect", "refused")
"""Classes of errors of connections that are not served; others are wrong responses to them."""
WRONG_RESPONSES = (
    "short",
    "long",
    "malformed",
    "wrong_status",
    "wrong_body",
    "unexpected_bytes",
    "early_response",
)
"""Classes of errors of responses that are not the right ones."""
BUSY_SHARE_MIN = 0.4
"""Share of a processor, which the server may use the rest of, from which a tool is busy."""
TIMES_BATCHES = ("wrk",)
"""Tools whose latency is that of a batch of pipelined requests."""
TIMES_CONNECTS = ("ab", "bolide")
"""Tools whose latency includes the connect if there is one for each request."""


def in_flight(
    workload: Workload, requests_per_s: float | None, mean_us: float | None
) -> float | None:
    """Return how many connections had a request in flight, by Little's law.

    None if it is unknown, or the law says nothing about connections: in an open loop, if the
    latency lacks the connect, and if each pipelined request has a latency of its own.
    """
    # Of a broadcast, connections wait for each other.
    if is_open_loop(workload) or workload.messages == "broadcast":
        return None
    if not workload.is_persistent and workload.tool not in TIMES_CONNECTS:
        return None
    at_once = workload.pipeline_depth * workload.streams
    if at_once > 1 and workload.tool not in TIMES_BATCHES:
        return None
    return littles_law.in_flight(requests_per_s, mean_us, at_once)


def in_flight_expected(workload: Workload, responses: int) -> float:
    """Return how many connections the law counts if all are served alike."""
    if workload.requests_total is not None:  # the tool waits for the last response
        return workload.connections
    return workload.connections * littles_law.complete_share(_rounds(workload, responses))


def _rounds(workload: Workload, responses: int) -> float:
    """Return the responses, or batches of pipelined ones, per connection."""
    at_once = workload.pipeline_depth * workload.streams
    return responses / workload.connections / at_once


def is_open_loop(workload: Workload) -> bool:
    """Whether requests are due at given times, so that connections may have none."""
    return workload.rate_per_s is not None or bool(workload.maximum or workload.finds)


def in_flight_of(found: Trial, workload: Workload) -> float | None:
    """Return the same for the record of a trial, also of one from before this was recorded."""
    return in_flight(workload, found.requests_per_s, (found.latency_us or {}).get("mean"))


def responses_of(found: Trial) -> int:
    """Return the number of all responses of a trial."""
    return (found.ok or 0) + (found.failed or 0)


def starved(
    workload: Workload,
    served: Served | None,
    flying: float | None,
    responses: int,
    *,
    errors: Mapping[str, int],
    is_tool_busy: bool,
) -> str:
    """Return why a rate is not that of all connections; "" if it is.

    `flying` is the number in flight, `responses` the number of all responses. A connection with
    wrong responses only is not starved: these are the reason then. Where connections had few
    responses, their counts say little, and the law is asked as well.
    """
    if not responses or is_open_loop(workload):
        return ""
    if served is not None:
        served = with_unopened(workload, served)
        wrong = sum(count for name, count in errors.items() if name not in NO_RESPONSE)
        if wrong > ERROR_SHARE_MAX * responses or not served.connections:
            return ""
        each = responses / workload.connections
        found = _starved_of(served, each, is_persistent=workload.is_persistent)
        if found or each >= RESPONSES_MIN:
            return found
    expected = in_flight_expected(workload, responses)
    if flying is None or not littles_law.is_starved(flying, expected, is_tool_busy=is_tool_busy):
        return ""
    return (
        f"rate times mean latency is {flying:.1f}: about {max(1, round(flying)):,} of"
        f" {workload.connections:,} connections were served"
    )


def _starved_of(served: Served, each: float, *, is_persistent: bool) -> str:
    """Return the same of connections that were counted, with `each` so many responses on average.

    A server that takes requests in no order leaves a share of exp(-each) without one. Of
    connections for one request each, some wait for the kernel to repeat a handshake.
    """
    total = served.starved + served.connections
    if served.starved > (STARVED_SHARE_MAX + math.exp(-each)) * total:
        return (
            f"{served.starved:,} of {total:,} connections were not served: the rate is that of"
            f" {served.connections:,}"
        )
    if not is_persistent or each < RESPONSES_MIN:
        return ""
    if served.fairness is None or served.fairness >= SERVED_SHARE_MIN:
        return ""
    few = max(1, round(served.fairness * total))
    return f"the rate is that of about {few:,} of {total:,} connections: {unevenness(served)}"


def with_unopened(workload: Workload, served: Served) -> Served:
    """Add the connections that were never opened to the starved ones.

    The generator starts without those that cannot be opened in time, and counts the others. In an
    open loop, and with fewer requests than connections, not every connection is needed.
    """
    total = served.starved + served.connections
    requests = workload.requests_total or workload.connections
    unopened = min(workload.connections, requests) - total
    if unopened <= 0 or not total or not workload.is_persistent or is_open_loop(workload):
        return served
    fairness = served.fairness and served.fairness * total / (total + unopened)
    return msgspec.structs.replace(
        served, starved=served.starved + unopened, min=0, fairness=fairness
    )


def starved_in(found: Trial, workload: Workload) -> str:
    """Return the same for the record of a trial."""
    return starved(
        workload,
        found.served,
        in_flight_of(found, workload),
        responses_of(found),
        errors=found.errors,
        is_tool_busy=is_busy(found.generator, found.seconds),
    )


def refutation(found: Trial, workload: Workload) -> str:
    """Return why no tool's figure of this load counts: starved connections, or wrong responses.

    Timeouts and refused connections refute nothing: another tool may wait longer.
    """
    if starved_here := starved_in(found, workload):
        return starved_here
    wrong = {name: found.errors.get(name, 0) for name in WRONG_RESPONSES}
    if sum(wrong.values()) <= ERROR_SHARE_MAX * responses_of(found):
        return ""
    classes = ", ".join(f"{name} {count:,}" for name, count in wrong.items() if count)
    return f"responses are wrong: {classes}"


def impossible(published: Published, workload: Workload) -> str:
    """Return why a published rate and latency cannot both be right; "" if they can."""
    latency_us = None if published.latency_ms is None else published.latency_ms * 1000
    flying = in_flight(workload, published.requests_per_s, latency_us)
    if flying is None:
        return ""
    if not littles_law.is_starved(flying, workload.connections, is_tool_busy=True):
        return ""
    return (
        f"the rate times the latency of {published.latency_ms:g} ms is {max(1, round(flying)):,}"
        f" requests in flight, not {workload.connections:,}: one of the two is wrong"
    )


def is_busy(generator: GeneratorUse, seconds: float | None) -> bool:
    """Whether a tool used so much of a processor that its connections waited for it."""
    processors = generator.processors
    if processors is None and generator.cpu_s is not None and seconds:
        processors = generator.cpu_s / seconds
    return (processors or 0.0) >= BUSY_SHARE_MIN


def contradiction(workload: Workload, flying: float | None, responses: int) -> str:
    """Return how rate and latency of a tool contradict each other; "" if they do not.

    With few responses per connection, those that began before a window make up for the others.
    """
    expected = in_flight_expected(workload, responses)
    if flying is None or not responses or not littles_law.contradicts(flying, expected):
        return ""
    is_many = flying > expected
    if is_many and not littles_law.contradicts(flying, workload.connections):
        return ""
    if is_many and _rounds(workload, responses) < RESPONSES_MIN:
        return ""
    return (
        f"rate times mean latency is {flying:,.0f}, not {workload.connections:,} connections:"
        f" do not rely on {workload.tool}'s latency"
    )


def unevenness(served: Served | None) -> str:
    """Return how unevenly connections were served; "" if evenly or unknown."""
    if served is None or not served.connections:
        return ""
    if served.fairness is not None and served.fairness < FAIRNESS_MIN:
        return (
            f"connections were served unevenly: {served.min:,} to {served.max:,} responses each,"
            f" {served.median:,} at the median"
        )
    if served.starved:
        total = served.starved + served.connections
        return f"{served.starved:,} of {total:,} connections got no correct response"
    return ""
