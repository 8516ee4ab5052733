"""A running server's backlog and queue, from real sockets of this machine."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Iterator

import pytest

from bolide.doctor.finding import Load, Role, Verdict
from bolide.doctor.listening import Listening, ask_kernel, owner
from bolide.doctor.source import Source, Unreadable
from doctor.machine import Machine, named


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=7) as made:
        yield made


def port_of(server: socket.socket) -> int:
    return int(server.getsockname()[1])


def inode_of(server: socket.socket) -> int:
    return os.fstat(server.fileno()).st_ino


def test_backlog_and_queue_of_a_listener(server: socket.socket) -> None:
    port = port_of(server)
    address = f"127.0.0.1:{port}"
    assert ask_kernel(port) == [Listening(address, 0, 7, inode_of(server))]
    clients = [socket.create_connection(server.getsockname()) for _ in range(3)]
    select.select([server], [], [], 5)
    assert ask_kernel(port) == [Listening(address, 3, 7, inode_of(server))]
    for each in clients:
        each.close()


def test_listener_of_ipv6() -> None:
    try:
        server = socket.create_server(("::1", 0), family=socket.AF_INET6, backlog=9)
    except OSError:
        pytest.skip("no IPv6 here")
    with server:
        port = port_of(server)
        assert ask_kernel(port) == [Listening(f"[::1]:{port}", 0, 9, inode_of(server))]


def test_owner_is_found_by_the_socket(server: socket.socket) -> None:
    assert owner(Source(), {inode_of(server)}) == str(os.getpid())
    with pytest.raises(Unreadable, match="only its owner and root can see"):
        owner(Source(), {1})


def test_short_backlog_limits(machine: Machine) -> None:
    load = Load(connections=5000, port=8000)
    short = Listening("127.0.0.1:8000", 0, 128, 77)
    row = named(machine.examine(load, listening=(short,)), "listener 127.0.0.1:8000")
    assert (row.verdict, row.value) == (Verdict.LIMITS, "0 of 128 wait")
    assert row.fix == "start the server with --backlog 8192, and raise somaxconn to it"
    enough = Listening("127.0.0.1:8000", 5000, 5000, 77)  # the kernel lets one more in
    row = named(machine.examine(load, listening=(enough,)), "listener 127.0.0.1:8000")
    assert row.verdict is Verdict.FINE
    full = Listening("127.0.0.1:8000", 5001, 5000, 77)
    row = named(machine.examine(load, listening=(full,)), "listener 127.0.0.1:8000")
    assert row.why == "Its queue is full: new connections are being dropped."


def test_limits_of_the_servers_own_process(machine: Machine) -> None:
    machine.limits(1024, 4096, process="4711")
    (machine.root / "proc/4711/fd").mkdir()
    (machine.root / "proc/4711/fd/5").symlink_to("socket:[77]")
    listening = (Listening("127.0.0.1:8000", 0, 9999, 77),)
    examination = machine.examine(Load(connections=5000, port=8000), listening=listening)
    row = named(examination, "descriptors of the server")
    assert (row.verdict, row.value) == (Verdict.LIMITS, "1024 (pid 4711)")
    assert row.fix.startswith("prlimit --pid 4711 --nofile=8192")


def test_nobody_listens(machine: Machine) -> None:
    row = machine.row("listener on port 8000", Load(port=8000))
    assert (row.verdict, row.value) == (Verdict.UNKNOWN, None)
    assert row.why == "nothing listens on TCP port 8000 in this namespace."


def test_requested_backlog(machine: Machine) -> None:
    assert machine.row("requested backlog", Load(2048)).verdict is Verdict.FINE
    assert machine.row("requested backlog", Load(2049)).verdict is Verdict.LIMITS
    names = [each.name for each in machine.examine(Load(role=Role.CLIENT)).findings]
    assert "requested backlog" not in names
