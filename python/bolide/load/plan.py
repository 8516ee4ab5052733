"""The plan for the engine, made of the options and the destination.

`docs/load.md` explains each option. The engine rejects what it cannot do. This module checks
whether the user's options are consistent, so that error messages name flags.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from typing import Any

from bolide.errors import ConfigError
from bolide.load import request, stage
from bolide.load.destination import Destination
from bolide.load.options import DURATION_S, Options
from bolide.load.transport import tls, websocket

Plan = dict[str, Any]
CPUS_MAX = 4096


def check(options: Options) -> None:
    """Check what needs no server: a mistake is one, whether or not a server listens.

    Raises:
        ConfigError: two options contradict each other, or a value is not valid.
    """
    _refuse_contradictions(options)
    _refuse_versions(options)
    request.check(options)
    _processors(options.cpus)
    if options.stages:
        stage.read(options.stages)


def build(options: Options, destination: Destination) -> Plan:
    """Make the plan.

    Raises:
        ConfigError: two options contradict each other, or a value is not valid.
    """
    check(options)
    plan: Plan = {
        "address": destination.address,
        "tls": tls.of(options, destination),
        "threads": options.threads,
        "connections": options.connections,
        "pipeline_depth": options.pipeline,
        "streams": options.streams,
        "is_persistent": options.is_persistent,
        "http_version": options.http_version,
        "websocket": websocket.of(options, destination),
        "source_addresses": _sources(options, destination),
        "cpus": _processors(options.cpus),
        "is_sleepless": options.sleepless,
        "requests": request.requests(options, destination),
        "ramp_up_s": options.ramp_up_s,
        "warm_up_s": options.warm_up_s,
        "timeout_s": options.timeout_s,
        "deadline_s": options.deadline_s,
    }
    return plan | _course(options)


def connections(options: Options) -> int:
    """Return the most connections at a time: stages may set their own.

    Raises:
        ConfigError: the stages are malformed.
    """
    stages = stage.read(options.stages) if options.stages else []
    return max((each.get("connections", 0) for each in stages), default=0) or options.connections


def length_s(plan: Plan) -> float | None:
    """Return the planned seconds of a run that are measured; None if a count ends it."""
    if plan.get("stages"):
        return float(sum(each["duration_s"] for each in plan["stages"]))
    duration_s: float | None = plan.get("duration_s")
    return duration_s


def _course(options: Options) -> Plan:
    """Return how load is generated and when it ends: a time, a count, or stages."""
    duration_s = None if options.requests else options.duration_s or DURATION_S
    if options.stages:
        return {"stages": stage.read(options.stages), "connections": connections(options)}
    course: Plan = {"rate_per_s": options.rate}
    if options.requests:
        return course | {"requests_total": options.requests}
    return course | {"duration_s": duration_s}


def _refuse_contradictions(options: Options) -> None:
    if options.duration_s and options.requests:
        raise ConfigError("--duration and --requests both set the end; give only one of them")
    if options.stages and (options.duration_s or options.requests or options.rate):
        raise ConfigError(
            "--stages sets rates and times itself; leave out --duration, --requests and --rate"
        )
    if options.stages and options.ramp_up_s:
        raise ConfigError("--stages sets the start itself; leave out --ramp-up")
    if options.ramp_up_s and options.requests:
        raise ConfigError("--ramp-up needs a duration; give --duration instead of --requests")
    if options.warm_up_s and options.requests:
        raise ConfigError("--warm-up needs a duration; give --duration instead of --requests")
    if options.deadline_s is not None and options.deadline_s >= options.timeout_s:
        raise ConfigError(
            f"--deadline has no effect: a request fails after the --timeout of "
            f"{options.timeout_s:g} s; give a longer --timeout"
        )
    if options.expect_same and options.expect_body is not None:
        raise ConfigError("--expect-same and --expect-body both set the content; give one of them")
    if options.threads > options.connections:
        raise ConfigError(
            f"--threads: {options.threads} are more than the {options.connections} connections; "
            "give at most that many"
        )


def _refuse_versions(options: Options) -> None:
    """Check what the version of HTTP allows."""
    if options.pipeline > 1 and not options.is_persistent:
        raise ConfigError("--pipeline needs persistent connections; leave out --no-keep-alive")
    if options.pipeline > 1 and options.http_version == "2":
        raise ConfigError("--pipeline is for HTTP/1.1; over HTTP/2 give --streams instead")
    if options.streams > 1 and options.http_version != "2":
        raise ConfigError("--streams needs HTTP/2; give --http2 as well, or --pipeline instead")
    if options.streams > 1 and not options.is_persistent:
        raise ConfigError("--streams needs persistent connections; leave out --no-keep-alive")
    if options.pipeline > 1 and options.http_version == "1.0":
        raise ConfigError("--pipeline needs HTTP/1.1 (RFC 9112 section 9.3.2); leave out --http1.0")


def _processors(text: str) -> list[int]:
    """Parse a list of processors in the format of `taskset`: `0`, `0,2` or `0-3`."""
    found: list[int] = []
    for part in text.split(",") if text else ():
        first, dash, last = part.strip().partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last) < CPUS_MAX):
            raise ConfigError(f"--cpus: {text!r} is not a list of processors; give one like 0,2-3")
        found.extend(range(int(first), int(last) + 1))
    allowed = os.sched_getaffinity(0)
    for number in found:
        if number not in allowed:
            given = ",".join(map(str, sorted(allowed)))
            raise ConfigError(f"--cpus: {number} is not available; give some of {given}")
    return found


def _sources(options: Options, destination: Destination) -> list[str]:
    """Check the source addresses."""
    for text in options.source_addresses:
        if not destination.port:
            raise ConfigError("--source needs TCP; a UNIX socket has no source address")
        try:
            version = ipaddress.ip_address(text).version
        except ValueError:
            raise ConfigError(f"--source: {text!r} is not an IP address") from None
        if (version == 6) != destination.address.startswith("["):
            raise ConfigError(
                f"--source: {text} is not of the same family as {destination.address}"
            )
        with socket.socket(socket.AF_INET6 if version == 6 else socket.AF_INET) as probe:
            try:
                probe.bind((text, 0))
            except OSError:
                raise ConfigError(f"--source: {text} is not an address of this machine") from None
    return list(options.source_addresses)
