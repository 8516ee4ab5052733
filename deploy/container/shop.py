"""A shop whose items are in PostgreSQL: the application that the files of this folder deploy.

The variables of libpq say where the database is: PGHOST, PGUSER, PGPASSWORD, PGDATABASE.
"""

from typing import Any

from psycopg import DataError, OperationalError
from psycopg_pool import AsyncConnectionPool

from bolide import App, HTTPError, Request

NAME_MAX = 200

app = App()


@app.on_startup
async def open_pool() -> None:
    """Connect; the server serves requests when this has ended."""
    app.state.pool = AsyncConnectionPool(
        "connect_timeout=5",
        min_size=1,
        max_size=8,  # of each worker: fewer than max_connections of PostgreSQL together
        timeout=5,
        open=False,
        check=AsyncConnectionPool.check_connection,  # one that the database has closed is replaced
    )
    await app.state.pool.open(wait=True, timeout=30)


@app.on_shutdown
async def close_pool() -> None:
    """Disconnect, after the last response."""
    await app.state.pool.close()


async def row(query: str, *values: object) -> Any:
    """Return the first row of a query."""
    try:
        async with app.state.pool.connection() as connection:
            return await (await connection.execute(query, values)).fetchone()
    except OperationalError:  # the pool's own errors are too
        raise HTTPError(503, "the database is not available") from None
    except (DataError, UnicodeEncodeError):  # such as a character that is zero
        raise HTTPError(422, "the database does not accept this value") from None


@app.get("/items/{id:int}")
async def item(request: Request, id: int) -> dict[str, str]:
    """Return the name of an item."""
    found = await row("SELECT name FROM item WHERE id = %s", id)
    if found is None:
        raise HTTPError(404, "no such item")
    return {"name": found[0]}


@app.post("/items")
async def add(request: Request) -> Any:
    """Add an item: {"name": "anvil"}."""
    content = await request.json()
    name = content.get("name") if isinstance(content, dict) else None
    if not isinstance(name, str) or not 0 < len(name) <= NAME_MAX:
        raise HTTPError(422, f"send an object with a name of 1 to {NAME_MAX} characters")
    (number,) = await row("INSERT INTO item (name) VALUES (%s) RETURNING id", name)
    return {"id": number}, 201
