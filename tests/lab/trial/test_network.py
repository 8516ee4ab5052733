"""A network namespace of its own: its settings, its loopback, and the machine's afterwards."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
from pathlib import Path

import pytest

from bolide.lab import race
from bolide.lab.record import schema
from bolide.lab.trial import network, trial
from bolide.lab.trial.network import NetworkError
from lab.tiny_race import Silent, among, options, study, trials_of, workload

COOKIES = "net.ipv4.tcp_syncookies"
SETTING = Path("/proc/sys/net/ipv4/tcp_syncookies")
REFUSAL = network.refusal([(COOKIES, "0")])
as_root = pytest.mark.skipif(bool(REFUSAL), reason=REFUSAL)


@as_root
def test_settings_are_those_of_the_namespace_only() -> None:
    before, own = SETTING.read_text(), os.readlink("/proc/thread-self/ns/net")
    other = "0" if before.strip() != "0" else "1"
    with network.own([(COOKIES, other)]):
        assert SETTING.read_text().strip() == other
        assert os.readlink("/proc/thread-self/ns/net") != own
        shown = subprocess.run(["cat", str(SETTING)], capture_output=True, text=True, check=True)
        assert shown.stdout.strip() == other
        with socket.create_server(("127.0.0.1", 0)) as listener:
            socket.create_connection(listener.getsockname(), timeout=5).close()
    assert SETTING.read_text() == before
    assert os.readlink("/proc/thread-self/ns/net") == own


@as_root
def test_an_error_in_it_leaves_the_namespace() -> None:
    own = os.readlink("/proc/thread-self/ns/net")
    with pytest.raises(ValueError), network.own([(COOKIES, "0")]):
        raise ValueError
    assert os.readlink("/proc/thread-self/ns/net") == own


@as_root
def test_an_unknown_setting_is_one_line() -> None:
    wanted = r"cannot set net\.ipv4\.nonsense to 1 \("
    with pytest.raises(NetworkError, match=wanted), network.own([("net.ipv4.nonsense", "1")]):
        pass


def test_without_settings_nothing_changes() -> None:
    own = os.readlink("/proc/thread-self/ns/net")
    with network.own([]):
        assert os.readlink("/proc/thread-self/ns/net") == own


def test_a_kernel_that_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        def unshare(self, flags: int) -> int:
            ctypes.set_errno(1)
            return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Refusing())
    wanted = "no network namespace of its own (Operation not permitted; it needs root)"
    assert network.refusal([(COOKIES, "0")]) == wanted


def test_what_it_refuses_is_left_out_of_the_race(
    tmp_path: Path, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "refusal", lambda sysctls: "no root" if sysctls else "")
    monkeypatch.setattr(
        trial, "run", lambda slot, given: trial.failed(slot, given, schema.Failure("none", ""))
    )
    loads = [workload(), workload(name="cookies", sysctls=((COOKIES, "1"),))]
    race.run(study(*loads), ["honest"], options(tmp_path), silent, among("honest"))
    assert "cookies is left out: no root" in silent.notes
    assert [each.workload for each in trials_of(tmp_path)] == ["short"]


@as_root
@pytest.mark.alone
def test_a_trial_runs_in_it(tmp_path: Path, silent: Silent) -> None:
    load = workload(name="cookies", sysctls=((COOKIES, "0"),))
    race.run(study(load), ["honest"], options(tmp_path), silent, among("honest"))
    [found] = trials_of(tmp_path)
    assert found.failure is None and found.ok, found
