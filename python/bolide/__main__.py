"""`python -m bolide`, and the command `bolide`."""

import os
import signal
import sys
from typing import NoReturn

INIT_PID = 1
"""A container's first process."""
KEPT_SIGNALS = (signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def main() -> NoReturn:
    """Run the command.

    Until the command can handle an interrupt, one ends the process without a traceback. For a
    container's first process, the kernel drops signals that it does not handle yet, but not those
    that are blocked: they wait until `bolide serve` handles them.
    """
    if os.getpid() == INIT_PID and sys.argv[1:2] == ["serve"]:
        signal.pthread_sigmask(signal.SIG_BLOCK, KEPT_SIGNALS)
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_default:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from bolide import cli

    cli.main(handles_interrupt=is_default)


if __name__ == "__main__":
    main()
