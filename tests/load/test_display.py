"""What is shown while a run goes on."""

import io
import os
import select

import pytest

from bolide.load import display
from load.samples import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_display_fits_the_stream() -> None:
    assert isinstance(display.choose(Terminal(), False), display.Block)
    assert isinstance(display.choose(io.StringIO(), False), display.Lines)
    assert isinstance(display.choose(Terminal(), True), display.Quiet)
    assert display.Block.interval_s == 0.2
    assert display.Lines.interval_s == 1.0


def test_a_plain_line() -> None:
    out = io.StringIO()
    lines = display.Lines(out)
    lines.show(progress(failed=3))
    lines.show(progress(phase="opening", share_done=0.0))
    lines.close()
    assert out.getvalue() == (
        "4.0 s (6.0 s left), 10,123 requests/s, p50 812 us, p99 2.34 ms, max 10.4 ms, "
        "3 failed, 100 connections\n"
        "opening connections, 10,123 requests/s, p50 812 us, p99 2.34 ms, max 10.4 ms, "
        "0 failed, 100 connections\n"
    )


def test_why_tls_failed_is_said_once() -> None:
    out = io.StringIO()
    lines = display.Lines(out)
    failed = progress(tls_failure="the server requires a certificate")
    for each in (progress(), failed, failed):
        lines.show(each)
    ends = [line.rpartition(" connections")[2] for line in out.getvalue().splitlines()]
    assert ends == ["", ", TLS failed: the server requires a certificate", ""]
    assert display.block(failed)[-1].endswith("(TLS failed: the server requires a certificate)")


def test_the_block_says_all() -> None:
    assert display.block(progress(errors={"timeout": 3, "reset": 70, "late": 0})) == [
        "  ██████████░░░░░░░░░░░░░░  40%  4.0 s (6.0 s left)",
        "  rate         10,123 requests/s",
        "  latency      p50 812 us, p99 2.34 ms, max 10.4 ms",
        "  responses    40,000 on 100 connections",
        "  errors       70 reset, 3 timeout",
    ]
    assert display.block(progress())[-1] == "  errors       none"
    assert display.block(progress(phase="warm_up", interval_latency_us=None))[0].endswith(
        "  warming up"
    )


def test_a_latency_of_nothing_is_not_zero() -> None:
    nothing = {"p50": 0.0, "p99": 0.0, "max": 0.0}
    lines = display.block(progress(interval_requests_per_s=0.0, interval_latency_us=nothing))
    assert lines[2] == "  latency      p50 -, p99 -, max -"


def test_the_block_is_drawn_over_itself_and_erased(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("LINES", "24")
    out = Terminal()
    block = display.Block(out)
    block.show(progress())
    first = out.getvalue()
    assert first.count("\n") == 5 and not first.startswith("\x1b")
    assert all(len(line.removesuffix("\x1b[K")) <= 29 for line in first.splitlines())
    block.show(progress())
    assert out.getvalue()[len(first) :].startswith("\x1b[5A\r")
    block.close()
    assert out.getvalue().endswith("\x1b[5A\r\x1b[J")
    before = out.getvalue()
    block.close()
    assert out.getvalue() == before


def test_nothing_is_drawn_before_the_first_progress() -> None:
    out = Terminal()
    display.Block(out).close()
    assert out.getvalue() == ""


@pytest.mark.parametrize(
    ("encoding", "text"), [("utf-8", "█░▏ é"), ("latin-1", "#.| é"), ("ascii", "#.| ?")]
)
def test_what_an_encoding_lacks_is_replaced(encoding: str, text: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    assert display.drawable("█░▏ é", stream) == text


@pytest.mark.parametrize(
    ("changes", "left_s"),
    [
        ({}, 6.0),
        ({"share_done": 0.0}, None),
        ({"phase": "warm_up"}, None),
        ({"share_done": 1.0}, 0),
    ],
)
def test_time_left(changes: dict[str, object], left_s: float | None) -> None:
    found = display.time_left_s(progress(**changes))
    assert found == (None if left_s is None else pytest.approx(left_s))


def test_a_real_terminal_is_left_clean() -> None:
    first, second = os.openpty()
    cleaned = b"\x1b[5A\r\x1b[J"
    written = b""
    try:
        with os.fdopen(second, "w") as terminal:
            shown = display.choose(terminal, False)
            shown.show(progress())
            shown.close()
            # A terminal hands over what was written piece by piece.
            while not written.endswith(cleaned) and select.select([first], [], [], 10)[0]:
                written += os.read(first, 65536)
    finally:
        os.close(first)
    assert b"10,123 requests/s" in written
    assert written.endswith(cleaned)
