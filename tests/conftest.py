"""What every test may use: a server that is started as a command and ended with the test."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from support.server import APPLICATIONS, Server, Start

pytest_plugins = ("support.loops",)

LEAVES_OUT = re.compile(r"not \w+(?: and not \w+)*")
OF_A_FILE = re.compile(r"^pytestmark = pytest\.mark\.(\w+)$", re.M)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--eager-tasks",
        choices=("on", "off"),
        help="for every server that is started",
    )


def pytest_configure(config: pytest.Config) -> None:
    # On a busy machine, the slowest of a hundred examples says nothing of the code.
    hypothesis.settings.register_profile("tests", deadline=None)
    hypothesis.settings.load_profile("tests")
    if value := config.getoption("--eager-tasks"):
        os.environ["BOLIDE_EAGER_TASKS"] = value


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import a file all of whose tests `-m "not a and not b"` leaves out.

    Importing files and listing their tests takes more processor time than `make quick`'s tests.
    """
    expression = config.getoption("markexpr")
    if collection_path.suffix != ".py" or not LEAVES_OUT.fullmatch(expression):
        return None
    marks = OF_A_FILE.findall(collection_path.read_text())
    return True if {*marks} & {*re.findall(r"not (\w+)", expression)} else None


@pytest.fixture(autouse=True)
def unchanged_log_level() -> Iterator[None]:
    """Set the level of the log back, which a server in this process sets."""
    logger = logging.getLogger("bolide")
    level = logger.level
    yield
    logger.setLevel(level)


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts `bolide serve TARGET OPTIONS...` on a free port."""
    servers: list[Server] = []

    def start(
        target: str = "basic.py",
        *options: str,
        ready: bool = True,
        cwd: Path = APPLICATIONS,
        env: dict[str, str] | None = None,
    ) -> Server:
        says_where = any(
            option.split("=")[0] in ("--bind", "--uds", "--port") for option in options
        )
        where = () if says_where else ("--port", "0")
        server = Server([target, *where, *options], cwd, env)
        servers.append(server)
        return server.wait_ready() if ready else server

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def applications() -> Path:
    """Return the folder with the applications that the tests serve."""
    return APPLICATIONS
