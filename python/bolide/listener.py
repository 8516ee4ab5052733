"""Makes the listening sockets, which the supervisor owns and the workers inherit."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterable
from dataclasses import dataclass

from bolide import _core
from bolide.address import Address
from bolide.errors import ConfigError
from bolide.logs import logger


@dataclass(frozen=True, slots=True)
class Listener:
    """An open listening socket, and the address that people reach it at."""

    socket: socket.socket
    address: Address
    inode: tuple[int, int] | None = None
    """Device and inode of a UNIX socket's file, to remove only our own."""

    def close(self) -> None:
        """Close this process's descriptor; the socket listens on while another process has one."""
        self.socket.close()

    def remove(self) -> None:
        """Remove the file of a UNIX socket, unless somebody has put another one there."""
        if self.inode is not None and _inode(self.address.path) == self.inode:
            os.unlink(self.address.path)


def open_all(addresses: Iterable[Address], backlog: int) -> list[Listener]:
    """Open a listener for each address, or none.

    Raises:
        ConfigError: an address is taken, not ours to use, or not of this machine.
    """
    listeners: list[Listener] = []
    try:
        for address in addresses:
            opened = [_open_unix(address)] if address.path else _open_tcp(address)
            listeners += opened
        for listener in listeners:
            listener.socket.listen(backlog)
    except BaseException:
        close_all(listeners)
        raise
    return listeners


def close_all(listeners: list[Listener]) -> None:
    """Close every listener and forget them; new connections are refused from now on."""
    for each in listeners:
        each.remove()
        each.close()
    listeners.clear()


def announce(name: str, listeners: Iterable[Listener], processes: str = "") -> None:
    """Say in one line what is served where; who waits for the server may wait for this line."""
    addresses = ", ".join(each.address.url for each in listeners)
    who = f" ({processes})" if processes else ""
    logger.info("Bolide %s serving %s on %s%s", _core.__version__, name, addresses, who)


def _open_tcp(address: Address) -> list[Listener]:
    """Bind every address that the host's name stands for, all to one port."""
    try:
        found = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise ConfigError(f"cannot listen on {address}: {error.strerror}") from None
    listeners: list[Listener] = []
    port = address.port
    for family, place in dict.fromkeys((entry[0], entry[4]) for entry in found):
        bound = _bind_tcp(family, (place[0], port, *place[2:]), address)
        host = str(place[0])
        port = bound.getsockname()[1]
        listeners.append(Listener(bound, Address(host, port)))
    return listeners


def _bind_tcp(family: int, place: tuple[object, ...], address: Address) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Linux hands it down to the accepted sockets: no answer waits for the peer's delayed ACK.
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(place)
    except OSError as error:
        made.close()
        raise ConfigError(f"cannot listen on {address}: {_reason(error)}") from None
    return made


def _open_unix(address: Address) -> Listener:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _make_way(address)
        made.setblocking(False)
        made.bind(address.path)
        return Listener(made, address, _inode(address.path))
    except OSError as error:
        made.close()
        raise ConfigError(f"cannot listen on {address}: {_reason(error)}") from None
    except ConfigError:
        made.close()
        raise


def _make_way(address: Address) -> None:
    """Remove the file that a server left behind; a living server's, or any other file, stays."""
    try:
        mode = os.stat(address.path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ConfigError(f"cannot listen on {address}: a file that is no socket is there")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        refused = probe.connect_ex(address.path) == errno.ECONNREFUSED
    if not refused:
        raise ConfigError(f"cannot listen on {address}: another process serves there")
    os.unlink(address.path)


def _inode(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _reason(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the address is in use; stop the process that has it, or choose another port"
    if error.errno == errno.EADDRNOTAVAIL:
        return "no network interface of this machine has that address"
    if error.errno == errno.EACCES:
        return "permission denied; ports below 1024 and other users' folders need rights"
    return error.strerror or str(error)
