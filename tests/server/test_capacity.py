"""What `bolide serve` says when the machine gives it less than it asks for."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from bolide import capacity
from bolide.settings import Settings, resolve
from conftest import Start

UNLIMITED = resource.RLIM_INFINITY


def settings(backlog: int = 2048, connections_max: int = 1000) -> Settings:
    return resolve({"backlog": backlog, "connections_max": connections_max}, environ={})


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Let the kernel take backlogs of 4096, and 1064 descriptors."""
    (tmp_path / "somaxconn").write_text("4096\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(capacity, "SOMAXCONN", tmp_path / "somaxconn")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1064, 2000))
    return monkeypatch


def test_limits_that_can_be_met_say_nothing(machine: pytest.MonkeyPatch) -> None:
    assert capacity.shortfalls(settings(4096, 1000)) == []
    machine.setattr(resource, "getrlimit", lambda _: (UNLIMITED, UNLIMITED))
    assert capacity.shortfalls(settings(4096, 10**9)) == []
    machine.setattr(capacity, "SOMAXCONN", Path("nowhere"))
    assert capacity.shortfalls(settings(65535)) == []


def test_backlog_that_is_cut(machine: pytest.MonkeyPatch) -> None:
    assert capacity.shortfalls(settings(4097)) == [
        "the kernel cuts the backlog of 4097 to 4096; raise it (sysctl -w "
        "net.core.somaxconn=4097) or lower --backlog; `bolide doctor` says more"
    ]


@pytest.mark.parametrize(
    ("hard", "mend"),
    [
        (1065, "`ulimit -n 1065`"),
        (UNLIMITED, "`ulimit -n 1065`"),
        (1064, "LimitNOFILE=1065 in systemd's unit or nofile in limits.conf"),
    ],
)
def test_too_few_descriptors(machine: pytest.MonkeyPatch, hard: int, mend: str) -> None:
    machine.setattr(resource, "getrlimit", lambda _: (1064, hard))
    assert capacity.shortfalls(settings(connections_max=1001)) == [
        "a worker may have 1064 open files, too few for --connections-max 1001; raise it "
        f"({mend}) or lower that; `bolide doctor` says more"
    ]


def test_server_says_it_at_its_start(start: Start) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == UNLIMITED:
        pytest.skip("no limit here")
    wanted = ("--connections-max", str(soft), "--backlog", "1")
    lines = [line for line in start("basic", *wanted).lines if "WARN" in line]
    assert len(lines) == 1
    assert f"a worker may have {soft} open files, too few for --connections-max {soft};" in lines[0]
