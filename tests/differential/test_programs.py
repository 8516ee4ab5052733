"""The same programs on Bolide and on uvicorn: same observations, or a known difference."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from differential.application import PROGRAMS
from differential.known import difference, documented
from differential.observing import CUT, STAGES, VARIANTS, Kind, observe
from support.server import Server

pytestmark = pytest.mark.slow


ATTEMPTS = 3
"""On a busy machine a server may lose its processor in the midst of a pass, which it then ends."""


class Servers(ExitStack):
    """The servers of a module, each started when something is first asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self._running: dict[Kind, Server] = {}
        self._kept: dict[tuple[Kind, str, str], list[Any]] = {}

    def observe(self, kind: Kind, name: str, stage: str) -> list[Any]:
        """Return what a program observes, which a server is asked once."""
        key = (kind, name, stage)
        if key not in self._kept:
            with ExitStack() as stack:
                server = self._start(kind, stack if PROGRAMS[name].is_alone else self)
                self._kept[key] = observe(server, name, stage)
        return self._kept[key]

    def forget(self, name: str) -> None:
        """Let a program be asked again."""
        for key in [key for key in self._kept if key[1] == name]:
            del self._kept[key]

    def _start(self, kind: Kind, stack: ExitStack) -> Server:
        if stack is self and kind in self._running:
            return self._running[kind]
        server = kind.start()
        stack.callback(server.close)
        if stack is self:
            self._running[kind] = server
        return server

    def wait_logged(self, kind: Kind, pattern: str) -> None:
        """Wait until it has logged something that matches."""
        self._running[kind].wait_line(pattern, timeout_s=10)


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    """Return servers that end with the module."""
    with Servers() as servers:
        yield servers


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_same_observations(servers: Servers, name: str, stage: str, variant: str) -> None:
    kind, reference = VARIANTS[variant]
    known = difference(name, stage, variant)
    for _ in range(ATTEMPTS):
        expected = servers.observe(reference, name, stage)
        observed = servers.observe(kind, name, stage)
        if observed == (known.observed if known else expected):
            break
        servers.forget(name)
    if known:
        assert observed != expected, "it no longer differs"
        assert observed == known.observed
    else:
        assert observed == expected
    if failed(observed) and not PROGRAMS[name].is_alone:
        servers.wait_logged(kind, f"ERROR bolide.error: GET /{stage}/{name}: ")


def failed(observed: Any) -> bool:
    """Return whether a response failed, which the server's log has to explain."""
    if isinstance(observed, list):
        return any(failed(each) for each in observed)
    return observed in (500, CUT)


def test_differences_are_documented() -> None:
    page = (Path(__file__).parents[2] / "docs/asyncio.md").read_text()
    named = set(re.findall(r"`(\w+)`", page.partition("## Differences")[2]))
    assert named >= set(documented())
