"""A PostgreSQL of our own, with the schema of the example."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.files import CONTAINER

DEBIAN = Path("/usr/lib/postgresql")
"""Where Debian has the programs of each version, which are not on the PATH."""


def programs() -> Path | None:
    """Return the folder of PostgreSQL's programs; None if it is not installed."""
    if (found := shutil.which("initdb")) is not None:
        return Path(found).resolve().parent
    found_here = sorted(DEBIAN.glob("*/bin/initdb"))
    return found_here[-1].parent if found_here else None


def as_user() -> dict[str, int]:
    """Return which user runs it: PostgreSQL refuses to run as root."""
    return {"user": 65534, "group": 65534} if os.geteuid() == 0 else {}


@contextmanager
def postgresql() -> Iterator[dict[str, str]]:
    """Run a database at a UNIX socket; yield libpq's variables for it."""
    folder = programs()
    assert folder is not None
    with tempfile.TemporaryDirectory(prefix="bolide-") as name:
        home = Path(name)
        if os.geteuid() == 0:
            os.chown(home, 65534, 65534)
        data = home / "data"
        run = {"cwd": home, "stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, **as_user()}
        made = [folder / "initdb", "--pgdata", data, "--username=shop", "--auth=trust"]
        subprocess.run([*made, "--no-sync", "--locale=C", "--encoding=UTF8"], check=True, **run)
        options = ["-D", data, "-k", home, "-c", "listen_addresses=", "-F"]
        log = (home / "log").open("w")
        with log, subprocess.Popen([folder / "postgres", *options], stderr=log, **run) as process:
            variables = {"PGHOST": name, "PGUSER": "shop", "PGDATABASE": "shop", "PGPASSWORD": "x"}
            try:
                prepare(variables, home / "log")
                yield variables
            finally:
                process.terminate()
                process.wait(timeout=20)


def prepare(variables: dict[str, str], log: Path) -> None:
    """Wait until it serves, then make the database as the image of PostgreSQL does."""
    import psycopg

    from support.waiting import wait_until

    where = {"host": variables["PGHOST"], "user": "shop", "dbname": "postgres"}

    def is_serving() -> bool:
        try:
            psycopg.connect(**where).close()
        except psycopg.OperationalError:
            return False
        return True

    wait_until(is_serving, patience_s=30)
    with psycopg.connect(**where, autocommit=True) as connection:
        connection.execute("CREATE DATABASE shop")
    with psycopg.connect(**{**where, "dbname": "shop"}) as connection:
        connection.execute((CONTAINER / "schema.sql").read_text())
