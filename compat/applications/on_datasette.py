"""Datasette with a small database."""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from datasette.app import Datasette

DATABASE = Path(tempfile.mkdtemp()) / "cities.db"
with sqlite3.connect(DATABASE) as connection:
    connection.execute("CREATE TABLE city (name TEXT, people INTEGER)")
    connection.executemany("INSERT INTO city VALUES (?, ?)", [(f"c{n}", n) for n in range(500)])
connection.close()

app = Datasette([str(DATABASE)], settings={"num_sql_threads": 2}).app()


def observe(url: str) -> dict[str, Any]:
    """Ask for pages, rows, a stream of all rows, and an error."""
    import hashlib

    import httpx

    seen: dict[str, Any] = {}
    targets = (
        "/cities/city.json?_size=5&_shape=array",
        "/cities/city.csv?_stream=1",
        "/cities.json?sql=select+sum(people)+from+city&_shape=arrays",
        "/cities/city?name=c7",
        "/-/static/app.css",
        "/cities/none",
    )
    with httpx.Client(base_url=url, timeout=20) as client:
        seen["start"] = client.get("/").status_code
        for target in targets:
            response = client.get(target)
            content = response.content if "html" not in response.headers["content-type"] else b""
            seen[target] = (
                response.status_code,
                response.headers["content-type"],
                None if b"query_ms" in content else hashlib.sha256(content).hexdigest(),
            )
    return seen
