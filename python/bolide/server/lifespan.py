"""Runs an application's startup before it serves, and its shutdown afterwards."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bolide.errors import StartupError
from bolide.interface.asgi import LifespanError, is_cancellation
from bolide.server.logs import logger

if TYPE_CHECKING:
    from bolide.interface import Application

HERE = os.path.dirname(__file__) + os.sep
TEXT_MAX = 10_000
"""Characters of an exception's text in a message of one line."""
DETAILS_MAX = 100_000
"""Characters of a traceback, or of several lines that an application gives as the reason."""


async def startup(app: Application) -> None:
    """Run the application's startup.

    Raises:
        StartupError: it raised.
    """
    try:
        await app.startup()
    except LifespanError as error:
        reason, details = _headline(str(error))
        message = f"the application's startup failed: {shortened(reason, TEXT_MAX)}"
        raise StartupError(message, _details(error.__cause__) or details) from error.__cause__
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        if is_cancellation(error):
            raise
        raise startup_error(error) from error


def startup_error(error: BaseException) -> StartupError:
    """Describe what a startup raised."""
    message = f"the application's startup failed: {type(error).__name__}: {text_of(error)}"
    return StartupError(message.removesuffix(": "), _details(error))


def text_of(error: BaseException) -> str:
    """Return an exception's text, even if its `__str__` raises."""
    try:
        return shortened(str(error), TEXT_MAX)
    except Exception as failure:
        return f"(no text: its __str__ raised {type(failure).__name__})"


def shortened(text: str, most: int) -> str:
    """Leave out the middle of a text that has more than that many characters."""
    left_out = len(text) - most
    if left_out <= 0:
        return text
    half = most // 2
    return f"{text[:half]} [{left_out} characters are left out] {text[-half:]}"


def _headline(message: str) -> tuple[str, str]:
    """Split an application's message into one line and the whole, which is "" if it is one line.

    Starlette's message is a traceback: its line is the exception, which follows the frames.
    """
    lines = message.strip().splitlines()
    if len(lines) < 2:
        return message, ""
    _, is_traceback, frames = message.rpartition("Traceback (most recent call last):\n")
    after = (line for line in frames.splitlines() if line.strip() and not line.startswith(" "))
    headline = next(after, lines[-1]) if is_traceback else lines[0]
    return headline, shortened(message.rstrip(), DETAILS_MAX) + "\n"


def _details(error: BaseException | None) -> str:
    """Return the traceback without the server's own frames."""
    if error is None:
        return ""
    import traceback

    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(HERE):
        frames = frames.tb_next
    text = "".join(traceback.format_exception(type(error), error, frames))
    return shortened(text, DETAILS_MAX)


async def shutdown(app: Application) -> None:
    """Run the application's shutdown; what it raises is logged, because the process ends anyway."""
    try:
        await app.shutdown()
    except LifespanError as error:
        text = "the application's shutdown failed: %s"
        logger.error(text, shortened(str(error), DETAILS_MAX))
    except BaseException as error:
        if is_cancellation(error):
            raise
        logger.exception("the application's shutdown failed")
