"""Runs an application's startup and shutdown around the time in which it serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bolide.errors import Error
from bolide.interface.asgi import LifespanError
from bolide.logs import logger

if TYPE_CHECKING:
    from bolide.interface import Application


class StartupError(Error):
    """The application's startup raised; `details` is the traceback."""

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.details = details


async def startup(app: Application) -> None:
    """Run the application's startup.

    Raises:
        StartupError: it raised.
    """
    try:
        await app.startup()
    except LifespanError as error:
        raise StartupError(f"the application's startup failed: {error}") from None
    except Exception as error:
        import traceback

        own_frames = error.__traceback__.tb_next if error.__traceback__ else None
        details = "".join(traceback.format_exception(type(error), error, own_frames))
        message = f"the application's startup failed: {type(error).__name__}: {error}"
        raise StartupError(message, details) from error


async def shutdown(app: Application) -> None:
    """Run the application's shutdown; what it raises is logged, for the process ends anyway."""
    try:
        await app.shutdown()
    except LifespanError as error:
        logger.error("the application's shutdown failed: %s", error)
    except Exception:
        logger.exception("the application's shutdown failed")
