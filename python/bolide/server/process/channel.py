"""Carries what is new from the supervisor to a worker that runs: certificates, and log files.

New certificates travel as a descriptor of a file that is only in memory: one message has room for
any number of them, and the supervisor never waits. The access log travels as the descriptor of the
file that the supervisor has opened, so that all workers write to the same one, and none needs the
right to open it. A descriptor can be lost on its way, because the worker has none left. The worker
then asks for it again: for certificates at once, which are sent when they are looked at next, and
for the access log after a second, which is sent at once. Until then it goes on with what it has.
The same holds for certificates that it has no memory for.
"""

from __future__ import annotations

import array
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass

from bolide.server.logs import logger

CERTIFICATES, ACCESS_LOG = b"t", b"l"
"""Messages from the supervisor; each has a descriptor."""
AGAIN, LOG_AGAIN = b"a", b"m"
"""A worker asks for the certificates or the access log again."""


@dataclass(slots=True)
class Channel:
    """The supervisor's end of the socket through which one worker gets what is new."""

    fd: int
    generation: int | None
    """Of the certificates that the worker has, or is about to take; None: it asked for them."""
    _asks_for_log: bool = False

    def send(self, generation: int, in_memory: Callable[[], int]) -> None:
        """Send the certificates of a generation, unless the worker has them.

        `in_memory` returns a descriptor of them, which is closed here. If it cannot, or there is no
        room now, the next call tries again.
        """
        end = socket.socket(fileno=self.fd)
        try:
            self._hear(end)
            if self.generation != generation:
                _send(end, in_memory)
                self.generation = generation
        except BlockingIOError:
            pass
        except (ConnectionError, EOFError):  # the worker has ended
            self.generation = generation
        except OSError as error:
            text = "the new certificates cannot be sent to a worker, which is tried again: %s"
            logger.error(text, error.strerror)
        finally:
            end.detach()

    def asks_for_log(self) -> bool:
        """Read what the worker asks for; return whether that is the access log.

        Raises:
            EOFError: the worker has ended.
        """
        end = socket.socket(fileno=self.fd)
        try:
            self._hear(end)
        except ConnectionError:
            raise EOFError from None
        finally:
            end.detach()
        was_asked, self._asks_for_log = self._asks_for_log, False
        return was_asked

    def _hear(self, end: socket.socket) -> None:
        """Note what the worker asks for.

        Raises:
            EOFError, ConnectionError: the worker has ended.
        """
        try:
            while message := end.recv(len(AGAIN)):
                if message == AGAIN:
                    self.generation = None
                self._asks_for_log |= message == LOG_AGAIN
        except BlockingIOError:
            return
        raise EOFError

    def send_access_log(self, fd: int) -> str:
        """Send a descriptor of the access log; return why that is not possible, or ""."""
        end = socket.socket(fileno=self.fd)
        try:
            socket.send_fds(end, [ACCESS_LOG], [fd])
        except ConnectionError:  # the worker has ended
            return ""
        except OSError as error:
            return error.strerror or str(error)
        finally:
            end.detach()
        return ""


@dataclass(slots=True)
class Received:
    """What the supervisor has sent."""

    certificates: bytes | None = None
    access_log_fd: int | None = None
    """The caller closes it."""
    is_log_lost: bool = False
    """Whether that of the access log did not arrive: the caller asks for it again later."""


def channel(generation: int | None) -> tuple[Channel, int]:
    """Create a channel; return the supervisor's end, and the descriptor for the worker.

    `generation` is that of the certificates that the worker has; None without TLS.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    theirs.setblocking(False)
    return Channel(ours.detach(), generation), theirs.detach()


def receive(fd: int) -> Received:
    """Return what was sent last; certificates that were lost are asked for again.

    Raises:
        EOFError: the supervisor has ended.
    """
    end = socket.socket(fileno=fd)
    received = Received()
    lost: set[bytes] = set()
    try:
        while True:
            message, fds = _receive_fds(end)
            if not message:
                raise EOFError
            (lost.discard if fds else lost.add)(message)
            for each in fds:
                try:
                    _take(received, message, each)
                except (MemoryError, OSError) as error:
                    report_unusable(fd, error)
    except BlockingIOError:
        received.is_log_lost = ACCESS_LOG in lost
        _report_lost(end, lost)
        return received
    finally:
        end.detach()


def _take(received: Received, message: bytes, fd: int) -> None:
    if message == ACCESS_LOG:
        if received.access_log_fd is not None:
            os.close(received.access_log_fd)
        received.access_log_fd = fd
        return
    with open(fd, "rb") as file:
        file.seek(0)
        received.certificates = file.read()


def _report_lost(end: socket.socket, lost: set[bytes]) -> None:
    if CERTIFICATES in lost:
        logger.error("the new certificates did not arrive: no descriptor is left for them")
        end.send(AGAIN)
    if ACCESS_LOG in lost:
        text = "this worker keeps the old access log: no descriptor is left for the new one"
        logger.error("%s; it is asked for again", text)


def report_unusable(fd: int, error: Exception) -> None:
    """Log why new certificates cannot be used, and ask for them again."""
    cause = str(error) or ("no memory is left" if isinstance(error, MemoryError) else repr(error))
    text = "this worker keeps the old certificates: it cannot use the new ones: %s"
    logger.error("%s; they are asked for again", text % cause)
    _ask(fd, AGAIN)


def ask_for_log(fd: int) -> None:
    """Ask for the access log again; nothing happens if the supervisor has ended."""
    _ask(fd, LOG_AGAIN)


def _ask(fd: int, message: bytes) -> None:
    end = socket.socket(fileno=fd)
    try:
        end.send(message)
    except OSError:
        pass
    finally:
        end.detach()


def _send(end: socket.socket, in_memory: Callable[[], int]) -> None:
    memory_fd = in_memory()
    try:
        socket.send_fds(end, [CERTIFICATES], [memory_fd])
    finally:
        os.close(memory_fd)


def _receive_fds(end: socket.socket) -> tuple[bytes, list[int]]:
    """Receive a message and its descriptors, which no other program inherits.

    `socket.recv_fds` does not pass its flags on.
    """
    fds = array.array("i")
    room = socket.CMSG_LEN(fds.itemsize)
    message, ancillary, *_ = end.recvmsg(len(CERTIFICATES), room, socket.MSG_CMSG_CLOEXEC)
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return message, fds.tolist()
