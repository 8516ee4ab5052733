"""A FastAPI application whose lifespan fails before it yields."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI


def connect() -> None:
    """Fail as a driver does."""
    try:
        raise OSError("no route")
    except OSError as error:
        raise RuntimeError("no database\nat all") from error


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Connect."""
    connect()
    yield


app = FastAPI(lifespan=lifespan)
