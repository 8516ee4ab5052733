"""Load over TLS: which flags go together, and whole runs against a server that counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bolide.errors import ConfigError
from bolide.load import summary, verdict
from bolide.load.options import Options
from bolide.load.transport import tls
from load.conftest import StartCounting
from load.samples import WHERE, report
from support.server import Server, command
from tls.authority import Authority, Files

SECURE = replace(WHERE, url="https://127.0.0.1:8000/page", is_secure=True)
HANDSHAKES = {
    "version": "TLS 1.3",
    "cipher_suite": "TLS_AES_256_GCM_SHA384",
    "handshakes_full": 3,
    "handshakes_resumed": 2_997,
    "handshakes_full_per_s": 1.5,
    "handshakes_resumed_per_s": 1_498.5,
    "failures": {},
    "first_failure": "",
}

MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"is_insecure": True, "authorities": Path("a")}, "--insecure verifies nothing"),
    ({"key": Path("k")}, "--key is the key of a certificate; give --cert"),
    ({"tls_min": "1.3", "tls_max": "1.2"}, "--tls-min 1.3 is above --tls-max 1.2"),
]


@pytest.mark.parametrize(("given", "says"), MISTAKES, ids=[says for _, says in MISTAKES])
def test_flags_that_contradict_each_other(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        tls.of(Options(urls=(), **given), SECURE)


@pytest.mark.parametrize("name", ["is_insecure", "authorities", "certificate", "key"])
def test_flags_of_tls_are_for_https(name: str) -> None:
    with pytest.raises(ConfigError, match=r"^--\w+ is for https; http://127.0.0.1:8000/page"):
        tls.of(Options(urls=(), **{name: True}), WHERE)
    assert tls.of(Options(urls=()), WHERE) is None


def test_the_plan_names_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pem = tmp_path / "roots.pem"
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    with pytest.raises(ConfigError, match=f"no file of trusted authorities {pem}; give one"):
        tls.of(Options(urls=()), SECURE)
    pem.touch()
    assert tls.of(Options(urls=(), certificate=pem, resumes=False), SECURE) == {
        "server_name": "127.0.0.1",
        "authorities": str(pem),
        "pair": (str(pem), str(pem)),
        "is_resumed": False,
        "version_min": "1.2",
        "version_max": "1.3",
    }
    unverified = tls.of(Options(urls=(), is_insecure=True), SECURE)
    assert unverified and unverified["authorities"] is None


def test_handshakes_are_shown_with_their_rate_if_each_request_needs_one() -> None:
    plan: dict[str, Any] = {
        "connections": 10,
        "pipeline_depth": 1,
        "is_persistent": False,
        "is_sleepless": False,
        "http_version": "1.1",
        "threads": 1,
        "requests": [{"expected_status": None}],
    }
    page = summary.page(report(tls=HANDSHAKES), plan, SECURE)
    suite = "TLS 1.3, TLS_AES_256_GCM_SHA384"
    assert f"\nhandshakes      3 full (1.5/s), 2,997 resumed (1,498.5/s); {suite}\n" in page
    page = summary.page(report(tls=HANDSHAKES), plan | {"is_persistent": True}, SECURE)
    assert f"\nhandshakes      3 full, 2,997 resumed; {suite}\n" in page


@pytest.mark.parametrize("cause", [*verdict.TLS_REMEDIES, "other"])
def test_every_cause_of_failure_has_a_remedy(cause: str) -> None:
    found = HANDSHAKES | {"failures": {cause: 7, "reset": 1}, "first_failure": "the text"}
    plan = {"requests": [{"expected_status": None}], "is_persistent": True, "is_sleepless": False}
    plan |= {"connections": 10, "pipeline_depth": 1, "streams": 1, "http_version": "1.1"}
    [sentence] = verdict.sentences(report(tls=found), plan)
    assert sentence.startswith("TLS with the server failed on 8 connections: ")
    assert sentence.endswith(" (the text)")


def test_a_run_without_a_trusted_certificate_has_no_latency_with_lateness() -> None:
    found = HANDSHAKES | {"failures": {"expired": 7}, "first_failure": "x", "was_hopeless": True}
    plan = {"requests": [{"expected_status": None}], "is_persistent": True, "is_sleepless": False}
    plan |= {"connections": 10, "pipeline_depth": 1, "streams": 1, "http_version": "1.1"}
    nothing = report(tls=found, ok=0, failed=7, statuses={}, schedule_lag_us={"p99": 9_000.0})
    sentences = verdict.sentences(nothing, plan)
    assert [text for text in sentences if "the generator itself" in text] == []
    assert any(", so the run was ended: its certificate has expired" in it for it in sentences)


@pytest.fixture
def authorities(authority: Authority, tmp_path: Path) -> str:
    """Write the authority's certificate to a file."""
    return str(authority.write(tmp_path / "authority.pem"))


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Return a function that runs `bolide load ARGUMENTS...` and returns its report."""

    def load(*arguments: str, code: int = 0) -> dict[str, Any]:
        done = command("load", *arguments, "--json", "--quiet", cwd=tmp_path)
        assert (done[0], done[2]) == (code, ""), done
        found: dict[str, Any] = json.loads(done[1])
        return found

    return load


Load = Callable[..., dict[str, Any]]
WAYS: list[tuple[tuple[str, ...], str, int, int]] = [
    (("-c", "7"), "TLS 1.3", 7, 0),
    (("-c", "4", "-t", "2", "--pipeline", "3", "--tls-max", "1.2"), "TLS 1.2", 4, 0),
    (("-c", "1", "--no-keep-alive"), "TLS 1.3", 1, 299),
    (("-c", "1", "--no-keep-alive", "--tls-max", "1.2"), "TLS 1.2", 1, 299),
    (("-c", "3", "--no-keep-alive", "--no-resumption", "--tls-min", "1.3"), "TLS 1.3", 300, 0),
    (("-c", "3", "--rate", "10k", "--expect-same"), "TLS 1.3", 3, 0),
]


@pytest.mark.slow
@pytest.mark.parametrize(("way", "version", "full", "resumed"), WAYS)
def test_the_servers_count_agrees_to_the_request(
    start_counting: StartCounting,
    files: Files,
    authorities: str,
    load: Load,
    way: tuple[str, ...],
    version: str,
    full: int,
    resumed: int,
) -> None:
    url = start_counting(*files.options).urls[0]
    assert url.startswith("https://")
    trust = ("--cacert", authorities)
    found = load(f"{url}/page/a", "-n", "300", *way, *trust)
    assert (found["ok"], found["failed"], found["unfinished"]) == (300, 0, 0)
    assert found["content_bytes_received"] == 300 * len("page a")
    shaken = found["tls"]
    assert shaken["version"] == version
    assert (shaken["handshakes_full"], shaken["handshakes_resumed"]) == (full, resumed)
    assert (found["connections_opened"], shaken["failures"]) == (full + resumed, {})
    expected = b'{"a":300}'
    checked = load(
        f"{url}/counts", "-n", "5", "-c", "1", "--expect-body", expected.decode(), *trust
    )
    assert checked["ok"] == 5


@pytest.fixture
def secure(start_counting: StartCounting, files: Files) -> Server:
    """Return a server that counts its responses, with a certificate."""
    return start_counting(*files.options)


@pytest.mark.slow
def test_a_server_of_an_unknown_issuer_has_no_rate(
    secure: Server, load: Load, authorities: str, tmp_path: Path
) -> None:
    other = str(Authority().write(tmp_path / "other.pem"))
    found = load(f"{secure.urls[0]}/page/a", "-n", "4", "-c", "4", "--cacert", other, code=3)
    assert (found["ok"], found["failed"], found["errors"]["tls"]) == (0, 4, 4)
    assert found["tls"]["failures"] == {"unknown_issuer": 4}
    assert any("--cacert" in sentence for sentence in found["warnings"])
    for rate in ((), ("--rate", "100")):
        way = ("-d", "1000", "-c", "5", "--cacert", other, *rate)
        found = load(f"{secure.urls[0]}/page/a", *way, code=3)
        assert (found["ok"], found["tls"]["was_hopeless"]) == (0, True)
        assert not any("generator itself" in sentence for sentence in found["warnings"])
    found = load(f"{secure.urls[0]}/page/a", "-n", "4", "-c", "2", "--insecure")
    assert (found["ok"], found["failed"]) == (4, 0)


@pytest.mark.slow
def test_a_port_without_tls_is_named(start_counting: StartCounting, load: Load) -> None:
    plain = start_counting().urls[0].replace("http:", "https:")
    found = load(f"{plain}/page/a", "-n", "2", "-c", "1", "--insecure", code=3)
    assert found["tls"]["failures"] == {"not_tls": 2}
    assert "http:// URL" in " ".join(found["warnings"])


@pytest.mark.slow
def test_a_client_certificate_is_presented(
    start_counting: StartCounting,
    files: Files,
    authority: Authority,
    authorities: str,
    load: Load,
    tmp_path: Path,
) -> None:
    options = ("--client-ca", authorities, "--client-certificate", "required")
    url = f"{start_counting(*files.options, *options).urls[0]}/page/a"
    mine = authority.issue(tmp_path, "client")
    trust = ("-n", "9", "-c", "3", "--cacert", authorities)
    found = load(url, *trust, "--cert", str(mine.certificate), "--key", str(mine.key))
    assert (found["ok"], found["failed"]) == (9, 0)
    found = load(url, *trust, code=3)
    assert found["tls"]["failures"] == {"certificate_required": 9}
