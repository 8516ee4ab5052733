"""Runs an application's startup before it serves, and its shutdown afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bolide.errors import StartupError
from bolide.interface.asgi import LifespanError
from bolide.server.logs import logger

if TYPE_CHECKING:
    from bolide.interface import Application


async def startup(app: Application) -> None:
    """Run the application's startup.

    Raises:
        StartupError: it raised.
    """
    try:
        await app.startup()
    except LifespanError as error:
        reason, details = _headline(str(error))
        message = f"the application's startup failed: {reason}"
        raise StartupError(message, _details(error.__cause__) or details) from error.__cause__
    except Exception as error:
        message = f"the application's startup failed: {type(error).__name__}: {error}"
        raise StartupError(message, _details(error)) from error


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
    return headline, message.rstrip() + "\n"


def _details(error: BaseException | None) -> str:
    """Return the traceback without our own frame."""
    if error is None:
        return ""
    import traceback

    frames = error.__traceback__.tb_next if error.__traceback__ else None
    return "".join(traceback.format_exception(type(error), error, frames))


async def shutdown(app: Application) -> None:
    """Run the application's shutdown; what it raises is logged, because the process ends anyway."""
    try:
        await app.shutdown()
    except LifespanError as error:
        logger.error("the application's shutdown failed: %s", error)
    except Exception:
        logger.exception("the application's shutdown failed")
