"""A server on this machine: which processors it may use, and whether the load leaves it one."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Collection, Iterator
from pathlib import Path

PROC = Path("/proc")
LISTENING = "0A"
"""The state of a listener in /proc/net/tcp."""


def shared_processors(address: str, cpus: Collection[int], threads: int) -> list[int]:
    """Return the processors that the load takes from a server on this machine.

    `address` is that of a plan, `cpus` the processors of the load's threads, empty if they are not
    bound. The result is empty if a processor is left for the server, or if nothing is known of it.
    """
    load = set(cpus) or os.sched_getaffinity(0)
    server = processors_of(address)
    if not server or len(server | load) > min(threads, len(load)):
        return []
    return sorted(server & load)


def processors_of(address: str) -> set[int]:
    """Return the processors of the processes that listen at an address; none if unknown."""
    sockets = {f"socket:[{inode}]" for inode in _inodes(address)}
    found: set[int] = set()
    for process in _owners(sockets) if sockets else ():
        try:
            found |= os.sched_getaffinity(process)
        except OSError:
            continue
    return found


def _inodes(address: str) -> Iterator[str]:
    """Return the inodes of the sockets that listen at an address of this machine."""
    if address.startswith("unix:"):
        for words in _rows("unix"):
            if words[7:] == [address.removeprefix("unix:")]:
                yield words[6]
        return
    host, _, port = address.rpartition(":")
    if not _is_local(host.strip("[]")):
        return
    for table in ("tcp", "tcp6"):
        for words in _rows(table):
            if words[3] == LISTENING and int(words[1].rpartition(":")[2], 16) == int(port):
                yield words[9]


def _rows(table: str) -> list[list[str]]:
    """Return the rows of a table of /proc/net as words; none where there is no such table."""
    try:
        lines = os.fsdecode((PROC / "net" / table).read_bytes()).splitlines()
    except OSError:
        return []
    return [line.split(maxsplit=7 if table == "unix" else -1) for line in lines[1:]]


def _is_local(host: str) -> bool:
    """Return whether an IP address is one of this machine."""
    version = ipaddress.ip_address(host).version
    try:
        with socket.socket(socket.AF_INET6 if version == 6 else socket.AF_INET) as probe:
            probe.bind((host, 0))
    except OSError:
        return False
    return True


def _owners(sockets: set[str]) -> Iterator[int]:
    """Return the processes that have one of these sockets open, as far as we may look."""
    for folder in PROC.glob("[0-9]*"):
        try:
            with os.scandir(folder / "fd") as links:
                is_owner = any(os.readlink(link) in sockets for link in links)
        except OSError:
            continue
        if is_owner:
            yield int(folder.name)
