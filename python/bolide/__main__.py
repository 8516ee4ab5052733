"""`python -m bolide`, and the command `bolide`."""

import signal
from typing import NoReturn


def main() -> NoReturn:
    """Run the command.

    Until the command can handle an interrupt, one ends the process without a traceback.
    """
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_default:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from bolide import cli

    cli.main(handles_interrupt=is_default)


if __name__ == "__main__":
    main()
