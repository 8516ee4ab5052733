"""A contestant that lies is caught before it is measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bolide.lab.launch import Place, start
from bolide.lab.process import NotReadyError, free_port
from bolide.lab.verify import Proof, WrongAnswerError, verify
from lab.race.conftest import liar, workload


def proved(way: str, tmp_path: Path, entry: dict[str, Any] | None = None, **load: Any) -> Proof:
    contestant = liar(way, **(entry or {}))
    address = ("127.0.0.1", free_port())
    with start(contestant, workload(**load), Place(tmp_path, address, (0,))) as server:
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
        ("more-than-said", "unexpected_bytes", "b'more' behind the answer"),
        ("knows-every-path", "wrong_status", "200 for an unknown path, not 404"),
        ("guesses", "guessed", "answered before the request was whole"),
    ],
)
def test_a_liar_is_caught(way: str, kind: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(WrongAnswerError) as caught:
        proved(way, tmp_path)
    assert (caught.value.kind, text in str(caught.value)) == (kind, True), caught.value


def test_pipelined_requests_are_answered_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bolide.lab.verify.PATIENCE_S", 0.5)
    with pytest.raises(WrongAnswerError, match="no answer within 0.5 s") as caught:
        proved("first-only", tmp_path, pipeline_depth=2)
    assert caught.value.kind == "no_answer"


def test_pipelined_requests_are_answered_in_order(tmp_path: Path) -> None:
    with pytest.raises(WrongAnswerError, match="the second got 200, not 404") as caught:
        proved("knows-every-path", tmp_path, pipeline_depth=2)
    assert caught.value.kind == "order"


def test_a_canned_one_may_answer_everything(tmp_path: Path) -> None:
    proof = proved("knows-every-path", tmp_path, {"is_canned": True}, pipeline_depth=2)
    assert proof.content == b"OK"


def test_one_that_does_not_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(NotReadyError, match="ended with 1: this machine is not mine"):
        proved("refuses-to-start", tmp_path)
