"""Which agents take part, and what a user is warned of."""

from __future__ import annotations

import os
import socket
from typing import Any

import msgspec
import pytest

from bolide.errors import ConfigError, Error
from bolide.fleet import place, wire
from bolide.fleet.place import Fleet
from fleet.samples import REQUEST, description, plan


class Described:
    """A link to agents of which another one joins each time that somebody looks."""

    def __init__(self, *names: str, at_first: int = 1) -> None:
        self._names = names
        self._there = at_first
        self.silent: set[str] = set()

    def agents(self) -> dict[str, str]:
        there = self._names[: self._there]
        self._there += 1
        return {f"tcp://{each}": each for each in there}

    def call(self, messages: dict[str, bytes], timeout_s: float = 5.0) -> dict[str, Any]:
        return {key: self._reply(key, octets) for key, octets in messages.items()}

    def close(self) -> None: ...

    def _reply(self, address: str, octets: bytes) -> bytes | Exception:
        name = address.removeprefix("tcp://")
        if name in self.silent:
            return Error("it did not respond for 5 s")
        if isinstance(wire.question(octets), wire.Clock):
            return wire.encode(wire.Time(now_ns=5))
        return wire.encode(description(name))


def names(fleet: Fleet) -> list[str]:
    return [each.name for each in fleet._members]


def test_a_load_waits_for_the_number_of_agents(capsys: pytest.CaptureFixture[str]) -> None:
    assert names(Fleet(Described("a", "b", "c"))) == ["a"]
    assert capsys.readouterr().err == ""
    assert names(Fleet(Described("a", "b", "c"), 3)) == ["a", "b", "c"]
    waited = [f"waiting for agents: {there} of 3 have joined\n" for there in (1, 2)]
    assert capsys.readouterr().err == "".join(waited)
    assert names(Fleet(Described("a", "b", "c"), 2, {"b"})) == ["a", "c"]


def test_fewer_or_more_agents_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "JOIN_S", -1.0)
    with pytest.raises(Error, match="only 1 of 3 agents have joined within -1 s: a"):
        Fleet(Described("a", "b", "c"), 3)
    with pytest.raises(ConfigError, match="--agents: there are 3 instead of 2: a, b, c; leave"):
        Fleet(Described("a", "b", "c", at_first=3), 2)


def test_a_fleet_has_at_most_64_agents() -> None:
    known = [f"n{each}" for each in range(65)]
    expected = "--fleet: there are 65 agents, and a fleet has at most 64; leave some out with"
    with pytest.raises(ConfigError, match=expected):
        Fleet(Described(*known, at_first=65))
    assert names(Fleet(Described(*known, at_first=65), None, ("n64",))) == known[:64]


def test_an_agent_can_be_left_out() -> None:
    link = Described("a", "b", at_first=2)
    link.silent = {"b"}
    expected = "agent b: it did not respond for 5 s; end it, or leave it out with --without-agent"
    with pytest.raises(Error, match=expected):
        Fleet(link)
    assert names(Fleet(link, None, ("b",))) == ["a"]
    with pytest.raises(ConfigError, match="no agent is called x; there are a, b"):
        Fleet(link, None, ("x",))
    with pytest.raises(ConfigError, match="there are no agents; start some"):
        Fleet(link, None, ("a", "b"))


def test_agents_on_this_machine_may_share_the_servers_processors() -> None:
    threads = len(os.sched_getaffinity(0))
    with socket.create_server(("127.0.0.1", 0)) as server:
        given = plan(address=f"localhost:{server.getsockname()[1]}", threads=threads)
        assert Fleet(Described("a")).shared_processors(given) == []
        local = Fleet(Described("a"))
        here = msgspec.structs.replace(description("a"), host=socket.gethostname())
        local._members[0].description = here
        assert local.shared_processors(given) == sorted(os.sched_getaffinity(0))
        assert local.shared_processors(given | {"address": "nowhere.invalid:80"}) == []


@pytest.mark.parametrize(
    ("request_changes", "what"),
    [
        ({"field_lines": [("Cookie", "a"), ("X", "b")], "content": None}, "the field cookie can"),
        (
            {"field_lines": [("authorization", "a")], "content": b"x"},
            "the field authorization and the content of requests can be read in the network",
        ),
    ],
)
def test_secrets_that_can_be_read_are_a_warning(request_changes: dict[str, Any], what: str) -> None:
    secret = plan(requests=[REQUEST | request_changes])
    [warning] = Fleet(Described("a"), is_readable=True).warnings(secret)
    assert warning.startswith(what) and "use a tls:// scheduler" in warning
    assert Fleet(Described("a")).warnings(secret) == []
    plain = plan(requests=[REQUEST | {"content": None}])
    assert Fleet(Described("a"), is_readable=True).warnings(plain) == []
