"""What `bolide serve` says when the machine gives it less than it asks for."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from bolide.config.settings import Settings, resolve
from bolide.server import capacity
from support.server import Start

UNLIMITED = resource.RLIM_INFINITY


def settings(backlog: int = 2048, connections_max: int = 1000) -> Settings:
    values = {"backlog": backlog, "connections_max": connections_max, "memory_max": 0}
    return resolve(values, environ={})


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Let the kernel take backlogs of 4096, and 1216 descriptors."""
    (tmp_path / "somaxconn").write_text("4096\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(capacity, "SOMAXCONN", tmp_path / "somaxconn")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1216, 2000))
    return monkeypatch


def test_limits_that_can_be_met_say_nothing(machine: pytest.MonkeyPatch) -> None:
    assert capacity.shortfalls(settings(4096, 1000)) == []
    machine.setattr(resource, "getrlimit", lambda _: (UNLIMITED, UNLIMITED))
    assert capacity.shortfalls(settings(4096, 10**9)) == []
    machine.setattr(capacity, "SOMAXCONN", Path("nowhere"))
    assert capacity.shortfalls(settings(65535)) == []


def test_backlog_that_is_cut(machine: pytest.MonkeyPatch) -> None:
    assert capacity.shortfalls(settings(4097)) == [
        "the kernel limits the backlog of 4097 to 4096; raise it (sysctl -w "
        "net.core.somaxconn=4097) or lower --backlog; see `bolide doctor`"
    ]


@pytest.mark.parametrize(
    ("hard", "fix"),
    [
        (1218, "`ulimit -n 1218`"),
        (UNLIMITED, "`ulimit -n 1218`"),
        (1217, "LimitNOFILE=1218 in systemd's unit or nofile in limits.conf"),
    ],
)
def test_too_few_descriptors(machine: pytest.MonkeyPatch, hard: int, fix: str) -> None:
    machine.setattr(resource, "getrlimit", lambda _: (1216, hard))
    assert capacity.shortfalls(settings(connections_max=1001)) == [
        "a worker may have 1216 open files, too few for --connections-max 1001: it holds 1000 "
        f"connections at most; raise it ({fix}) or lower that; see `bolide doctor`"
    ]


def test_each_worker_has_a_descriptor_of_each_other(machine: pytest.MonkeyPatch) -> None:
    assert capacity.descriptors_needed(settings()) == 1216
    many = resolve({"connections_max": 1000, "workers": 33}, environ={})
    assert capacity.descriptors_needed(many) == 1330
    assert capacity.connections_max(many) == 1216 - 152 - 64 - 99


@pytest.mark.parametrize(
    ("soft", "held"),
    [
        (UNLIMITED, 1000),
        (1217, 1000),
        (1216, 1000),
        (1215, 1000),
        (1214, 999),
        (512, 384),
        (64, 16),
    ],
)
def test_descriptors_limit_the_connections(
    machine: pytest.MonkeyPatch, soft: int, held: int
) -> None:
    machine.setattr(resource, "getrlimit", lambda _: (soft, UNLIMITED))
    assert capacity.connections_max(settings()) == held


@pytest.mark.parametrize(
    ("hard", "raised"), [(2000, [(1218, 2000)]), (1216, []), (UNLIMITED, [(1218, UNLIMITED)])]
)
def test_descriptors_are_raised_to_what_is_needed(
    machine: pytest.MonkeyPatch, hard: int, raised: list[tuple[int, int]]
) -> None:
    reported: list[tuple[int, int]] = []
    machine.setattr(resource, "getrlimit", lambda _: (1216, hard))
    machine.setattr(resource, "setrlimit", lambda _, limits: reported.append(limits))
    capacity.raise_descriptor_limit(settings(connections_max=1000))
    assert not reported
    capacity.raise_descriptor_limit(settings(connections_max=1001))
    assert reported == raised


def test_server_raises_its_limit_or_says_so(start: Start) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (900, hard))
    try:
        server = start("basic", "--connections-max", "1000", "--backlog", "1")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not [line for line in server.lines if "WARN" in line]
    (worker,) = server.workers()
    assert resource.prlimit(worker, resource.RLIMIT_NOFILE) == (1216, hard)
    if hard == UNLIMITED:
        pytest.skip("no limit here")
    lines = start("basic", "--connections-max", str(hard), "--backlog", "1").lines
    (warning,) = [line for line in lines if "WARN" in line]
    assert f"a worker may have {hard} open files, too few for --connections-max {hard}:" in warning


def test_the_supervisor_of_many_workers_gets_the_descriptors_that_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raised: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: raised.append(limits))
    values = {"workers": 100, "connections_max": 100, "memory_max": 0}
    capacity.raise_descriptor_limit(resolve(values, environ={}))
    assert raised == [(932, 4096)]
