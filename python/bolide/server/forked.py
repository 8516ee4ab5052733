"""Processes that the application forks: what TERM does to them, and how those end that come back.

INT has no effect on them, as on the worker: a terminal sends it to all of them, and requests in
flight may need them. One that is forked in the supervisor, as with `preload`, keeps no address,
nothing by which workers notice the supervisor's end, and no signal of the supervisor's.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from os import fork as os_fork  # an application that is imported here may replace it (gevent)
from typing import NoReturn

from bolide.server.process import signals

EXIT_RETURNED = 1
BLOCKED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
"""Blocked from before a fork until the child has its own handlers."""

_masks = threading.local()
_forking = threading.local()


class _Held:
    """What processes that the application forks here do not keep."""

    fds: Callable[[], Iterable[int]] = tuple
    instead_fd = -1
    is_registered = False


def keep_from(fds: Callable[[], Iterable[int]], instead_fd: int) -> None:
    """Keep descriptors from the processes that the application forks from now on.

    They get `instead_fd` in the place of each, so that objects which close theirs do no harm.
    """
    _Held.fds, _Held.instead_fd = fds, instead_fd
    if not _Held.is_registered:
        os.register_at_fork(before=_hold, after_in_parent=_unblock, after_in_child=_let_go)
        _Held.is_registered = True


def keep_nothing() -> None:
    """Let processes that are forked from now on keep everything."""
    _Held.fds, _Held.instead_fd = tuple, -1


def fork() -> int:
    """Fork a process of the server, which keeps everything."""
    _forking.is_ours = True
    try:
        return os_fork()
    finally:
        _forking.is_ours = False


def _is_held() -> bool:
    return _Held.instead_fd >= 0 and not getattr(_forking, "is_ours", False)


def _hold() -> None:
    if _is_held():
        _block()


def _let_go() -> None:
    if _is_held():
        for fd in _Held.fds():
            if fd >= 0:  # otherwise it is closed
                os.dup2(_Held.instead_fd, fd, inheritable=False)
        _restore_signals()
        _unblock()
    keep_nothing()


def _restore_signals() -> None:
    """Give signals their usual effect here, except INT: none of them is for the supervisor."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGINT}:
        if signal.getsignal(number) is signals.note:  # otherwise it is the application's
            signal.signal(number, signal.SIG_DFL)


def restore_term() -> None:
    """Let TERM end the processes that this one forks from now on.

    It has a handler, which is the worker's own: a child would inherit it, and the descriptor to
    which the signal's number is written, and so stop the worker instead of itself.
    """
    handler = signal.getsignal(signal.SIGTERM)

    def in_child() -> None:
        _restore_signals()  # those that the worker has from the supervisor
        if signal.getsignal(signal.SIGTERM) == handler:  # otherwise it is the application's
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _unblock()

    os.register_at_fork(before=_block, after_in_parent=_unblock, after_in_child=in_child)


def _block() -> None:
    _masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)


def _unblock() -> None:
    # There is none if another thread was in a fork when this was registered.
    if (before := getattr(_masks, "before", None)) is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        del _masks.before


def leave(error: BaseException | None) -> NoReturn:
    """End this process as the interpreter would end after `error`, without its exit functions.

    Args:
        error: what a handler raised in this process; None if it returned.
    """
    code = EXIT_RETURNED
    try:
        if isinstance(error, SystemExit):
            code = _code_of(error)
        elif error is not None:
            traceback.print_exception(error)
        else:
            sys.stderr.write(
                f"bolide: the process {os.getpid()}, which a handler forked, returned to the server"
                " and was ended; end it with os._exit()\n"
            )
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:
        os._exit(code)


def _code_of(error: SystemExit) -> int:
    """Return the exit code of sys.exit(): a number, 0 for None, otherwise 1 and the text."""
    if error.code is None or isinstance(error.code, int):
        return (error.code or 0) & 0xFF
    sys.stderr.write(f"{error.code}\n")
    return 1
