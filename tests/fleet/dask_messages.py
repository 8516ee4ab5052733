"""Messages of Dask, from those that are not of the fleet."""

from __future__ import annotations

import asyncio
from typing import Any

import distributed


async def asked(address: str, **message: Any) -> Any:
    """Send an agent a message as Dask does; return the reply, or what prevented one."""
    comm = await distributed.core.connect(address)
    try:
        await comm.write({"reply": True, **message})
        return await asyncio.wait_for(comm.read(deserializers=["msgpack"]), 1)
    except (OSError, TimeoutError, TypeError) as error:  # TypeError: an error of Dask's
        return error
    finally:
        comm.abort()


async def addresses(scheduler: str) -> list[str]:
    async with distributed.Client(scheduler, asynchronous=True, set_as_default=False) as client:
        return list((await client.scheduler.identity(n_workers=-1))["workers"])
