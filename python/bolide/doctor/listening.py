"""The listening sockets of a running server: backlog, queue, and the limits of its process.

/proc/net/tcp shows the queue of a listener but not its backlog, so the sockets are read by netlink
(sock_diag, as `ss` does), which needs no privileges.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bolide.doctor import descriptor
from bolide.doctor.finding import (
    Case,
    Finding,
    Judgement,
    Verdict,
    fine,
    power_of_two_above,
)
from bolide.doctor.source import Source, Unreadable

GROUP = "running server"
NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
REQUEST, DUMP = 0x1, 0x300
END_OF_DUMP, FAILURE = 3, 2
TCP_LISTEN = 10
HEADER = struct.Struct("=IHHII")
"""nlmsghdr: length, type, flags, sequence, port id."""
QUERY = struct.Struct("=BBBxI48x")
"""inet_diag_req_v2: family, protocol, extensions, states; an empty socket id matches all."""
MESSAGE_START = struct.Struct("=BBBB")
"""Start of inet_diag_msg: family, state, timer, retransmissions."""
SOCKET_ID = struct.Struct("!HH16s16s")
"""Of inet_diag_sockid: source port, destination port, source and destination address."""
TAIL = struct.Struct("=IIIII")
"""Of inet_diag_msg: expires, rqueue, wqueue, uid, inode."""
TAIL_OFFSET = MESSAGE_START.size + 48
RECEIVE_BYTES = 1 << 16
TIMEOUT_S = 2.0
QUEUE = "The queue of connections that wait until a worker accepts them."
DESCRIPTORS = "Open files of the process that owns the listener; each connection is one."


@dataclass(frozen=True, slots=True)
class Listening:
    """A listening TCP socket."""

    address: str
    queue: int
    """Connections that wait to be accepted."""
    backlog: int
    """How many connections may wait."""
    inode: int


Ask = Callable[[int], list[Listening]]


def ask_kernel(port: int) -> list[Listening]:
    """Find the TCP sockets that listen on a port, of IPv4 and IPv6.

    Raises:
        Unreadable: sock_diag is not available here.
    """
    try:
        found = [each for family in (socket.AF_INET, socket.AF_INET6) for each in _dump(family)]
    except (OSError, struct.error) as error:
        raise Unreadable(f"the kernel's socket list (sock_diag): {error}") from None
    return [listening for served, listening in found if served == port]


def _dump(family: int) -> Iterator[tuple[int, Listening]]:
    query = QUERY.pack(family, socket.IPPROTO_TCP, 0, 1 << TCP_LISTEN)
    size = HEADER.size + len(query)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(TIMEOUT_S)
        kernel.send(HEADER.pack(size, SOCK_DIAG_BY_FAMILY, REQUEST | DUMP, 1, 0) + query)
        while True:
            data = kernel.recv(RECEIVE_BYTES)
            while data:
                size, kind, *_ = HEADER.unpack_from(data)
                message, data = data[HEADER.size : size], data[size + -size % 4 :]
                if kind == END_OF_DUMP:
                    return
                if kind == FAILURE:
                    number = -struct.unpack_from("=i", message)[0]
                    raise OSError(number, os.strerror(number))
                yield _listening(family, message)


def _listening(family: int, message: bytes) -> tuple[int, Listening]:
    port, _, source, _ = SOCKET_ID.unpack_from(message, MESSAGE_START.size)
    _, queue, backlog, _, inode = TAIL.unpack_from(message, TAIL_OFFSET)
    host = socket.inet_ntop(family, source if family == socket.AF_INET6 else source[:4])
    address = f"[{host}]:{port}" if family == socket.AF_INET6 else f"{host}:{port}"
    return port, Listening(address, queue, backlog, inode)


def examine(case: Case, ask: Ask) -> list[Finding]:
    """Judge the listeners of the given port, and the process that owns them."""
    if case.load.port is None:
        return [_requested(case)] if case.load.is_server else []
    name = f"listener on port {case.load.port}"
    try:
        found = ask(case.load.port)
        if not found:
            raise Unreadable(f"nothing listens on TCP port {case.load.port} in this namespace")
    except Unreadable as error:
        return [_row(name, None, Judgement(Verdict.UNKNOWN, f"{error}."))]
    rows = [_backlog(each, case) for each in found]
    return [*rows, _owner(case, {each.inode for each in found})]


def _requested(case: Case) -> Finding:
    """Judge the backlog that a server passes to listen(), if no running server is examined."""
    asked, wanted = case.load.backlog, case.load.connections
    if asked >= wanted:
        judgement = fine(f"Up to {asked:,} connections can wait, if somaxconn allows it.")
    else:
        judgement = _too_short(asked, wanted)
    return _row("requested backlog", f"{asked:,}", judgement)


def _too_short(backlog: int, wanted: int) -> Judgement:
    why = (
        f"Of {wanted:,} connections opened at once, {backlog:,} can wait; the others retry "
        "after 1 s."
    )
    fix = f"start the server with --backlog {power_of_two_above(wanted)}, and raise somaxconn to it"
    return Judgement(Verdict.LIMITS, why, fix)


def _backlog(listening: Listening, case: Case) -> Finding:
    queue, backlog, wanted = listening.queue, listening.backlog, case.load.connections
    if queue > backlog:
        why = "Its queue is full: new connections are being dropped."
        judgement = Judgement(Verdict.LIMITS, why, "more workers, or a faster application")
    elif backlog < wanted:
        judgement = _too_short(backlog, wanted)
    else:
        judgement = fine(f"Up to {backlog:,} connections can wait.")
    return _row(f"listener {listening.address}", f"{queue:,} of {backlog:,} wait", judgement)


def _owner(case: Case, inodes: set[int]) -> Finding:
    name = "descriptors of the server"
    try:
        process = owner(case.source, inodes)
        value, judgement = descriptor.judge_soft(case, process)
        return _row(name, f"{value} (pid {process})", judgement, DESCRIPTORS)
    except Unreadable as error:
        return _row(name, None, Judgement(Verdict.UNKNOWN, f"{error}."), DESCRIPTORS)


def owner(source: Source, inodes: set[int]) -> str:
    """Find the youngest process that owns one of the sockets, which is a worker.

    Raises:
        Unreadable: no process whose descriptors are visible owns one.
    """
    wanted = {f"socket:[{inode}]" for inode in inodes}
    processes = [name for name in source.names("proc") if name.isdigit()]
    for process in sorted(processes, key=int, reverse=True):
        folder = f"proc/{process}/fd"
        if any(source.link(f"{folder}/{fd}") in wanted for fd in source.names(folder)):
            return process
    reason = os.strerror(errno.EACCES)
    raise Unreadable(f"only its owner and root can see which process owns the socket ({reason})")


def _row(name: str, value: str | None, judgement: Judgement, does: str = QUEUE) -> Finding:
    return Finding(
        name=name,
        group=GROUP,
        value=value,
        verdict=judgement.verdict,
        why=judgement.why,
        does=does,
        advice="Allow for each connection, or for each new connection of a burst.",
        fix=judgement.fix,
    )
