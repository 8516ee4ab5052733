"""A race with TLS and HTTP/2, from the certificate to the figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bolide.lab import race
from bolide.lab.plan import contestant
from lab.tiny_race import Silent, options, study, trials_of, workload

pytestmark = pytest.mark.slow

NAMES = ["bolide-native-tls", "ceiling-tls"]
HELLO: dict[str, Any] = {"content": "Hello, World!", "timeout_s": 5.0, "duration_s": 1.0}


def test_every_kind_of_load_has_a_figure(tmp_path: Path, silent: Silent) -> None:
    loads = (
        workload(**HELLO, name="h1-bolide", tls="resumed"),
        workload(**HELLO, name="h2-bolide", tls="resumed", http_version="2", streams=8),
        workload(**HELLO, name="full-bolide", tls="full", is_persistent=False),
        workload(**HELLO, name="resumed-bolide", tls="resumed", is_persistent=False),
    )
    known = {name: contestant.own()[name] for name in NAMES}
    assert race.run(study(*loads), NAMES, options(tmp_path), silent, known)
    found = {(each.workload, each.contestant): each for each in trials_of(tmp_path)}
    assert {*found} == {(each.name, name) for each in loads for name in NAMES}
    for (name, _), each in found.items():
        assert (each.failure, each.errors, bool(each.ok)) == (None, {}, True), each
        protocol = "h2" if name == "h2-bolide" else "http/1.1"
        assert f"TLSv1.3, TLS_AES_256_GCM_SHA384, {protocol}" in each.evidence
        assert ("--no-resumption" in each.command) == (name == "full-bolide")


def test_a_file_is_loaded_in_whole(tmp_path: Path, silent: Silent) -> None:
    load = workload(**HELLO, tls="resumed", target="/large", file_bytes=3_000_000)
    own = contestant.own()["bolide-asgi-file-tls"]
    assert race.run(study(load), [own.name], options(tmp_path), silent, {own.name: own})
    [*_, found] = trials_of(tmp_path)
    assert (found.failure, found.errors) == (None, {})
    assert found.ok and found.bytes_per_s and found.seconds
    assert found.bytes_per_s * found.seconds >= found.ok * 3_000_000


def test_a_contestant_without_tls_is_left_out(tmp_path: Path, silent: Silent) -> None:
    names = ["bolide-native", "bolide-native-tls"]
    known = {name: contestant.own()[name] for name in names}
    load = workload(**HELLO, tls="resumed")
    assert race.run(study(load), names, options(tmp_path), silent, known)
    assert {each.contestant for each in trials_of(tmp_path)} == {"bolide-native-tls"}
