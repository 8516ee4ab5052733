"""webbench's two lines, in the spellings of its forks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bolide.lab.tools import Load, ToolError, find

pytestmark = pytest.mark.tools

WEBBENCH = find("webbench")
LOAD = Load("http://127.0.0.1:1/", is_persistent=False, duration_s=100)
PAGE = """
Benchmarking: GET http://127.0.0.1:8080/
100 clients, running 100 sec.

Speed=3737880 pages/min, 16135182 bytes/sec.
Requests: 6229801 susceed, 0 failed.
"""


@pytest.mark.parametrize(
    ("size", "ok"),
    [(259.0, 6229801), (257.0, 6229801), (261.0, 6229801), (262.0, 0), (256.0, 0), (None, 6229801)],
)
def test_pages_of_another_length_are_wrong(size: float | None, ok: int) -> None:
    found = WEBBENCH.read(PAGE, "", 0, replace(LOAD, response_bytes=size))
    assert (found.ok, found.failed) == (ok, 6229801 - ok)
    assert any("instead of the" in each for each in found.remarks) == (ok == 0)


@pytest.mark.parametrize(
    "text",
    [
        PAGE,
        PAGE.replace("susceed", "succeed"),
        PAGE.replace("Speed=", "Speed = "),
        PAGE.replace("100 clients, running", "Runing info: 100 clients, running"),
    ],
)
def test_two_lines(text: str) -> None:
    found = WEBBENCH.read(text, "", 57, LOAD)  # the exit code is a page count modulo 256
    assert (found.ok, found.failed, found.latency_us) == (6229801, 0, None)
    assert found.requests_per_s == pytest.approx(62298.01)
    assert found.bytes_per_s == 16135182
    assert found.remarks == [
        "webbench checks neither status nor content: error pages count as success"
    ]


def test_failures_do_not_raise_the_speed() -> None:
    text = PAGE.replace("6229801 susceed, 0", "1000 susceed, 6228801")
    found = WEBBENCH.read(text, "", 0, LOAD)
    assert (found.ok, found.failed, found.requests_per_s) == (1000, 6228801, 10)
    assert found.errors == {"failed": 6228801}


@pytest.mark.parametrize("per_s", [-512, 30])
def test_a_counter_that_wrapped_is_unknown(per_s: int) -> None:
    load = Load("http://h/", is_persistent=False, duration_s=100, expected_content=b"x" * 1024)
    found = WEBBENCH.read(PAGE.replace("16135182", str(per_s)), "", 0, load)
    assert found.bytes_per_s is None
    assert "webbench's byte counter wrapped at 2 GiB" in found.remarks


def test_dead_children_are_reported() -> None:
    found = WEBBENCH.read("Some of our childrens died.\n" + PAGE, "", 0, LOAD)
    assert "some of webbench's processes died: the sums are too low" in found.remarks


def test_no_result() -> None:
    with pytest.raises(ToolError, match="webbench exited with 1 .* Connect to server failed"):
        WEBBENCH.read("\nConnect to server failed. Aborting benchmark.\n", "", 1, LOAD)
