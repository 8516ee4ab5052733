"""Creates the listening sockets, which the supervisor owns and the workers inherit.

An address is bound first of all, so that a mistake is reported at once. The socket listens only
when an application is ready to serve: until then clients are refused. This applies to the first
start only; when a worker is replaced, the socket keeps listening, and clients wait in its backlog.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import stat
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from bolide import _core
from bolide.config.address import Address
from bolide.errors import ConfigError
from bolide.server.logs import logger
from bolide.server.process.socket_access import AS_CREATED, SocketAccess

UNIX_SOCKETS = Path("/proc/net/unix")
"""Every UNIX socket of the machine: flags in column 4, then type, state, inode and the name it was
bound to."""
NOT_LISTENING = "00000000"
"""The flags of a socket that does not listen, or not yet."""
UNCONNECTED = "01"


IN_THE_WAY = "a file that is not a socket is there; choose another path"
NAME_BYTES_MAX = 107
"""Bytes of a UNIX socket's name; a zero follows (sun_path of unix(7))."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A bound socket that listens or will listen, and the address at which it is reached."""

    socket: socket.socket
    address: Address
    inode: tuple[int, int] | None = None
    """Device and inode of a UNIX socket's file, to remove only our own."""

    def listen(self, backlog: int) -> None:
        """Let clients connect; up to `backlog` of them may wait to be accepted.

        This affects every process that has the socket, and may be repeated.

        Raises:
            ConfigError: another process listens at the address now.
        """
        try:
            if self.inode is None and self.socket.family != socket.AF_UNIX:
                # Set again, so that a later server can bind while our connections remain.
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.listen(backlog)
        except OSError as error:
            raise ConfigError(f"cannot listen on {self.address}: {_reason(error)}") from None

    @property
    def mode(self) -> str:
        """The permissions of a UNIX socket's file, such as 0755; "" for TCP or without a file."""
        try:
            return f"{stat.S_IMODE(os.stat(self.address.path).st_mode):04o}" if self.inode else ""
        except OSError:
            return ""

    @property
    def is_lost(self) -> bool:
        """Whether a UNIX socket's file is gone, or another's, so that no client can connect."""
        return self.inode is not None and _inode(self.address.path) != self.inode

    def owned(self) -> Listener:
        """Return it as one whose file, if it has one, this process removes."""
        return replace(self, inode=_inode(self.address.path) if self.address.path else None)

    def disowned(self) -> Listener:
        """Return it as one whose file stays."""
        return replace(self, inode=None)

    def close(self) -> None:
        """Close this process's descriptor; the socket listens on while another process has one."""
        self.socket.close()

    def remove(self) -> None:
        """Remove the file of a UNIX socket, unless it has been replaced by another.

        If it cannot, that is logged: a server that stops has more to do, and a later one replaces
        the file.
        """
        if self.inode is None or self.is_lost:
            return
        try:
            os.unlink(self.address.path)
        except OSError as error:
            text = "the UNIX socket's file %s could not be removed: %s"
            logger.warning(text, self.address.path, error.strerror)


def open_all(addresses: Iterable[Address], access: SocketAccess = AS_CREATED) -> list[Listener]:
    """Bind all addresses, or none; clients cannot connect before `Listener.listen`.

    The files of UNIX sockets get this `access`, but not those of sockets that were passed.

    Raises:
        ConfigError: an address is in use, not permitted, or not of this machine.
    """
    listeners: list[Listener] = []
    given: set[Address] = set()
    try:
        for address in addresses:
            place = replace(address, path=address.path and _resolved(address))
            if place in given and (place.path or place.port or place.fd is not None):
                raise ConfigError(f"the address {address} is given twice; name it once")
            given.add(place)
            listeners += _open(address, access)
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
    """Log in one line what is served where; scripts may wait for this line."""
    opened = list(listeners)
    addresses = ", ".join(each.address.url for each in opened)
    modes = sorted({each.mode for each in opened} - {""})
    details = [processes] if processes else []
    details += [f"socket mode {' and '.join(modes)}"] if modes else []
    # The address of a UNIX socket has no scheme that would say it.
    is_unsaid = any(each.address.path and each.address.scheme == "https" for each in opened)
    details += ["TLS on every address"] if is_unsaid else []
    by = f" ({', '.join(details)})" if details else ""
    logger.info("Bolide %s serving %s on %s%s", _core.__version__, name, addresses, by)


def _open(address: Address, access: SocketAccess) -> list[Listener]:
    if address.fd is not None:
        return [_adopt(address.fd, address)]
    return [_open_unix(address, access)] if address.path else _open_tcp(address)


def _adopt(fd: int, address: Address) -> Listener:
    """Use a socket that another process has bound, and passed to this one."""
    try:
        passed = socket.socket(fileno=fd)
        kind = passed.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE)
    except OSError as error:
        reason = f"{fd} is not the descriptor of a socket: {error.strerror}"
        raise ConfigError(f"cannot listen on {address}: {reason}") from None
    if kind != socket.SOCK_STREAM:
        passed.detach()
        raise ConfigError(f"cannot listen on {address}: it is not a stream socket")
    if _is_connected(passed):
        passed.detach()
        reason = "it is a connected socket, not one that listens"
        raise ConfigError(f"cannot listen on {address}: {reason}")
    passed.setblocking(False)
    passed.set_inheritable(False)
    name = passed.getsockname()
    if passed.family == socket.AF_UNIX:
        path = name.decode(errors="replace") if isinstance(name, bytes) else name
        return Listener(passed, Address(path=path, scheme=address.scheme))
    passed.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Listener(passed, Address(name[0], name[1], scheme=address.scheme))


def _is_connected(passed: socket.socket) -> bool:
    try:
        passed.getpeername()
    except OSError:
        return False
    return True


def _open_tcp(address: Address) -> list[Listener]:
    """Bind every address of the host's name, all to one port."""
    try:
        found = socket.getaddrinfo(
            _resolvable(address.host),
            address.port,
            type=socket.SOCK_STREAM,
            flags=socket.AI_PASSIVE,
        )
    except OSError as error:
        remedy = "give an address of this machine, or a name that means one"
        raise ConfigError(f"cannot listen on {address}: {error.strerror}; {remedy}") from None
    except ValueError:  # it cannot be encoded, or has a zero
        text = f"{address.host!r} is not the name of a host; a part has 1 to 63 characters"
        raise ConfigError(f"cannot listen on {address}: {text}") from None
    listeners: list[Listener] = []
    port = address.port
    for family, place in dict.fromkeys((entry[0], entry[4]) for entry in found):
        bound = _bind_tcp(family, (place[0], port, *place[2:]), address)
        host = str(place[0])
        port = bound.getsockname()[1]
        listeners.append(Listener(bound, Address(host, port, scheme=address.scheme)))
    return listeners


def _resolvable(host: str) -> str | bytes:
    """Return an IP address as bytes: for a str, Python loads tables of Unicode (0.4 MB)."""
    try:
        return str(ipaddress.ip_address(host)).encode("ascii")
    except ValueError:
        return host


def _bind_tcp(family: int, place: tuple[object, ...], address: Address) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        # On Linux accepted sockets inherit it: no response waits for the peer's delayed ACK.
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        _bind_alone(made, place)
    except OSError as error:
        made.close()
        raise ConfigError(f"cannot listen on {address}: {_reason(error)}") from None
    return made


def _bind_alone(made: socket.socket, place: tuple[object, ...]) -> None:
    """Bind exclusively, although the socket does not listen yet.

    With SO_REUSEADDR set on all sides, several processes can bind one address until one listens. It
    is needed if connections of an earlier server remain (TIME_WAIT), and only for this moment.
    """
    try:
        made.bind(place)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(place)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)


def _open_unix(address: Address, access: SocketAccess) -> Listener:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _make_way(address)
        made.setblocking(False)
        made.bind(_name_of(address.path))
        opened = Listener(made, address, _inode(address.path))
    except OSError as error:
        made.close()
        raise ConfigError(f"cannot listen on {address}: {_reason_unix(error)}") from None
    except ConfigError:
        made.close()
        raise
    try:
        access.give(address.path)
    except BaseException:
        close_all([opened])
        raise
    return opened


def _make_way(address: Address) -> None:
    """Remove the socket file that a dead server left; any other file stays."""
    try:
        mode = os.stat(address.path).st_mode
    except FileNotFoundError:
        if wrong := _missing(address.path):
            raise ConfigError(f"cannot listen on {address}: {wrong}") from None
        return
    if not stat.S_ISSOCK(mode):
        raise ConfigError(f"cannot listen on {address}: {IN_THE_WAY}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        refused = probe.connect_ex(address.path) == errno.ECONNREFUSED
    if not refused or _is_bound(address.path):
        raise ConfigError(f"cannot listen on {address}: another process serves there")
    os.unlink(address.path)


def _missing(path: str) -> str:
    """Return why no file can be created at a path where none is; "" if one can."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        return f"the folder {folder} does not exist; create it"
    if os.path.islink(path):
        return f"it is a link to {os.readlink(path)}, which does not exist; remove the link"
    return ""


def _resolved(address: Address) -> str:
    """Return the path of a UNIX socket without links.

    Raises:
        ConfigError: it is relative, and the current folder was removed.
    """
    try:
        return os.path.realpath(address.path)
    except FileNotFoundError:
        reason = "the current folder was removed; give a path from the root"
        raise ConfigError(f"cannot listen on {address}: {reason}") from None


def _is_bound(path: str) -> bool:
    """Return whether a process has bound a socket there that does not listen yet.

    One that listens under that name has another file, since this one refuses connections.
    """
    try:
        lines = os.fsdecode(UNIX_SOCKETS.read_bytes()).splitlines()[1:]
    except OSError:  # another system, or no /proc: nothing is known to be there
        return False
    name = _name_of(path)
    bound = (line.split(maxsplit=7)[3:] for line in lines)
    # Accepted connections have its name too, but another state.
    return any(
        [flags, state, *found] == [NOT_LISTENING, UNCONNECTED, name]
        for flags, _type, state, _inode, *found in bound
    )


def is_same_file(one: str, other: str) -> bool:
    """Return whether two paths, of which files may not exist yet, are of one file."""
    try:
        return bool(other) and os.path.realpath(one) == os.path.realpath(other)
    except FileNotFoundError:  # one is relative, and the current folder was removed
        return one == other


def _name_of(path: str) -> str:
    """Return the name to bind to: from the root, by which others recognise it, if that fits."""
    name = os.path.abspath(path)
    return name if len(os.fsencode(name)) <= NAME_BYTES_MAX else path


def _inode(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _reason(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the address is in use; stop the process that uses it, or choose another port"
    if error.errno == errno.EADDRNOTAVAIL:
        return "no network interface of this machine has that address"
    if error.errno == errno.EACCES:
        return "permission denied; ports below 1024 need privileges"
    return error.strerror or str(error)


def _reason_unix(error: OSError) -> str:
    if error.errno in (errno.EACCES, errno.EPERM):
        return "permission denied; this user may not create files in that folder"
    if error.strerror:
        return error.strerror
    # no number: Python's own
    return f"the path is too long; a UNIX socket's has {NAME_BYTES_MAX} bytes at most"
