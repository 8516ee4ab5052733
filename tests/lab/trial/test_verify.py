"""A contestant that lies is caught before it is measured."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any

import pytest

from bolide.lab.trial.launch import Place, start
from bolide.lab.trial.process import NotReadyError, free_port
from bolide.lab.trial.verify import (
    CLOSING_S,
    SURPLUS_S,
    Proof,
    WrongResponseError,
    read_response,
    verify,
)
from lab.tiny_race import CPU, liar, workload

pytestmark = pytest.mark.slow


def proved(way: str, tmp_path: Path, entry: dict[str, Any] | None = None, **load: Any) -> Proof:
    contestant = liar(way, **(entry or {}))
    address = ("127.0.0.1", free_port())
    with start(contestant, workload(**load), Place(tmp_path, address, (CPU,))) as server:
        server.wait_ready(address)
        return verify(address, workload(**load), contestant.entry)


def test_an_honest_one_passes(tmp_path: Path) -> None:
    proof = proved("honest", tmp_path, pipeline_depth=8)
    assert proof.content == b"OK"
    assert proof.remarks == ("sends no Date",)


def test_it_passes_with_connections_that_close(tmp_path: Path) -> None:
    assert proved("honest", tmp_path, is_persistent=False).content == b"OK"


def test_without_an_expected_content_the_first_is_it(tmp_path: Path) -> None:
    assert proved("honest", tmp_path, content=None).content == b""


@pytest.mark.parametrize(
    ("way", "kind", "text"),
    [
        ("wrong-body", "wrong_body", "2 bytes b'O?', not 2 bytes b'OK'"),
        ("error-page", "wrong_status", "status 500, not 200"),
        ("closes-early", "early_eof", "closed after 2 of 12 bytes of content"),
        ("more-than-said", "unexpected_bytes", "b'more' after the response"),
        ("knows-every-path", "wrong_status", "200 for an unknown path, not 404"),
        ("guesses", "guessed", "responded before the request was complete"),
        ("counts-below-zero", "malformed", "Content-Length: -2"),
        ("counts-twice", "malformed", "Content-Length appears twice"),
        ("counts-chunks-wrongly", "malformed", "'+2' is not a chunk size"),
        ("counts-status-without-end", "malformed", f"'HTTP/1.1 {'2' * 31}' is not a status line"),
        ("promises-much", "endless", "1,000,000,000,000 bytes of content are announced"),
    ],
)
def test_a_liar_is_caught(way: str, kind: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(WrongResponseError) as caught:
        proved(way, tmp_path)
    assert (caught.value.kind, text in str(caught.value)) == (kind, True), caught.value


@pytest.mark.parametrize("status", ["99", "600", "0200", "2000", "2 0", "²00", "+20", "2_0"])
def test_a_status_is_three_digits(status: str) -> None:
    head = f"HTTP/1.1 {status} OK\r\nContent-Length: 0\r\n\r\n".encode("latin-1")
    with pytest.raises(WrongResponseError, match="is not a status line") as caught:
        read_response(io.BytesIO(head))
    assert caught.value.kind == "malformed"


def test_a_response_without_an_end_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bolide.lab.trial.verify.CONNECTION_BYTES_MAX", 1 << 20)
    with pytest.raises(WrongResponseError, match="more than 1 MiB without an end") as caught:
        proved("never-ends", tmp_path)
    assert caught.value.kind == "endless"


def test_a_response_must_be_complete_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bolide.lab.trial.verify.RESPONSE_S_MAX", 0.5)
    with pytest.raises(WrongResponseError, match=r"no response within 0\.5 s") as caught:
        proved("drips", tmp_path)
    assert caught.value.kind == "no_answer"


def test_without_an_expected_content_each_response_is_like_the_first(tmp_path: Path) -> None:
    with pytest.raises(WrongResponseError) as caught:
        proved("differs", tmp_path, content=None)
    assert str(caught.value) == "2 bytes b'02', not 2 bytes b'01'; all responses must be the same"


def test_one_that_does_not_close_is_remarked_upon_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bolide.lab.trial.verify.RESPONSE_S_MAX", 60.0)
    assert CLOSING_S + SURPLUS_S < 1.0
    started = time.monotonic()
    proof = proved("keeps-open", tmp_path)
    assert time.monotonic() - started < 10  # with the server's start; not 60
    assert proof.remarks == ("keeps a connection open despite Connection: close", "sends no Date")


def test_one_that_dies_of_a_request_to_close_is_never_sent_one(tmp_path: Path) -> None:
    with pytest.raises(WrongResponseError):
        proved("dies-of-close", tmp_path)
    proof = proved("dies-of-close", tmp_path, {"closes": False}, pipeline_depth=4)
    assert (proof.content, proof.remarks) == (b"OK", ("sends no Date",))


def test_pipelined_requests_all_have_responses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bolide.lab.trial.verify.RESPONSE_S_MAX", 0.5)
    with pytest.raises(WrongResponseError, match="no response within 0.5 s") as caught:
        proved("first-only", tmp_path, pipeline_depth=2)
    assert caught.value.kind == "no_answer"


def test_pipelined_requests_have_responses_in_order(tmp_path: Path) -> None:
    with pytest.raises(WrongResponseError, match="the second got 200, not 404") as caught:
        proved("knows-every-path", tmp_path, pipeline_depth=2)
    assert caught.value.kind == "order"


def test_a_canned_one_may_respond_to_everything(tmp_path: Path) -> None:
    proof = proved("knows-every-path", tmp_path, {"is_canned": True}, pipeline_depth=2)
    assert proof.content == b"OK"


def test_one_that_does_not_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(NotReadyError, match=f"ended with 1: {tmp_path} is not mine"):
        proved("refuses-to-start", tmp_path)
