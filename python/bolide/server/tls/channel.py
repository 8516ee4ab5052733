"""Carries new certificates from the supervisor to a worker that runs.

They travel as a descriptor of a file that is only in memory: one message has room for any number
of certificates, and the supervisor never waits. A descriptor can be lost on its way, because the
worker has none left. The worker then asks for it again.
"""

from __future__ import annotations

import array
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass

from bolide.server.logs import logger

MESSAGE = b"t"
AGAIN = b"a"


@dataclass(slots=True)
class Channel:
    """The supervisor's end of the socket through which one worker gets new certificates."""

    fd: int
    generation: int | None
    """Of the certificates that the worker has, or is about to take; None: it asked for them."""

    def send(self, generation: int, in_memory: Callable[[], int]) -> None:
        """Send the certificates of a generation, unless the worker has them.

        `in_memory` returns a descriptor of them, which is closed here. If it cannot, or there is no
        room now, the next call tries again.
        """
        end = socket.socket(fileno=self.fd)
        try:
            if _was_asked(end):
                self.generation = None
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


def channel(generation: int) -> tuple[Channel, int]:
    """Create a channel; return the supervisor's end, and the descriptor for the worker."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    theirs.setblocking(False)
    return Channel(ours.detach(), generation), theirs.detach()


def receive(fd: int) -> bytes | None:
    """Return what was sent last; None if nothing was, or if it was lost and is asked for again.

    Raises:
        EOFError: the supervisor has ended.
    """
    end = socket.socket(fileno=fd)
    content = None
    is_lost = False
    try:
        while True:
            message, fds = _receive_fds(end)
            for memory_fd in fds:
                with open(memory_fd, "rb") as file:
                    file.seek(0)
                    content = file.read()
            if not message:
                raise EOFError
            is_lost = not fds
    except BlockingIOError:
        if is_lost:
            logger.error("the new certificates did not arrive: no descriptor is left for them")
            end.send(AGAIN)
        return content
    finally:
        end.detach()


def _send(end: socket.socket, in_memory: Callable[[], int]) -> None:
    memory_fd = in_memory()
    try:
        socket.send_fds(end, [MESSAGE], [memory_fd])
    finally:
        os.close(memory_fd)


def _was_asked(end: socket.socket) -> bool:
    was_asked = False
    try:
        while message := end.recv(len(AGAIN)):
            was_asked |= message == AGAIN
    except BlockingIOError:
        return was_asked
    raise EOFError


def _receive_fds(end: socket.socket) -> tuple[bytes, list[int]]:
    """Receive a message and its descriptors, which no other program inherits.

    `socket.recv_fds` does not pass its flags on.
    """
    fds = array.array("i")
    room = socket.CMSG_LEN(fds.itemsize)
    message, ancillary, *_ = end.recvmsg(len(MESSAGE), room, socket.MSG_CMSG_CLOEXEC)
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return message, fds.tolist()
