"""The end of a process that the application forked and that comes back to the server."""

from __future__ import annotations

import os
import sys
import traceback
from typing import NoReturn

EXIT_RETURNED = 1


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
