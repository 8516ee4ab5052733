"""Idle connections, which show the memory that each of them needs."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from bolide.lab import race
from bolide.lab.tools import Load, ToolError, find
from bolide.lab.trial.launch import Place, start
from bolide.lab.trial.process import free_port
from lab.tiny_race import CPU, Silent, among, liar, options, study, trials_of, workload

LOAD = Load("http://127.0.0.1:1/a", connections=9, requests_total=9, expected_content=b"OK")


def test_it_says_how_many_stayed_open() -> None:
    assert find("hold").command(LOAD)[-5:] == ["127.0.0.1", "1", "/a", "9", "4f4b"]
    found = find("hold").read(json.dumps({"ok": 7, "seconds": 0.5}), "", 0, LOAD)
    assert (found.ok, found.failed, found.errors) == (7, 2, {"not_held": 2})
    assert (found.requests_per_s, found.requests_sent) == (14.0, 9)
    with pytest.raises(ToolError, match="hold exited with 1 and no result: it was closed"):
        find("hold").read("", "it was closed", 1, LOAD)


@pytest.mark.parametrize(
    ("load", "message"),
    [
        (Load("http://a:1/", connections=9), "requests_total differs"),
        (Load("http://a:1/", requests_total=100, pipeline_depth=2), "hold cannot do pipelining"),
        (Load("http://a:1/", requests_total=100, warm_up_s=1), "hold cannot do a warm-up"),
        (Load("http://a:1/", requests_total=100, fields=(("A", "b"),)), "field lines of a study"),
    ],
)
def test_it_is_for_one_request_on_each_connection(load: Load, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        find("hold").command(load)


@pytest.mark.slow
def test_memory_at_start_and_of_a_connection(tmp_path: Path, silent: Silent) -> None:
    load = workload(tool="hold", connections=50, duration_s=None, requests_total=50)
    race.run(study(load), ["honest"], options(tmp_path), silent, among("honest"))
    [found] = trials_of(tmp_path)
    assert found.failure is None and (found.ok, found.failed) == (50, 0), found
    use = found.server
    assert use.rss_bytes_start is not None and use.rss_bytes_start == use.rss_bytes_process
    assert use.rss_bytes_max is not None and use.rss_bytes_max > use.rss_bytes_start


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("closes-early", "a connection was closed before its response"),
        ("error-page", "responded b'HTTP/1.1 500 Internal Server Error"),
    ],
)
def test_a_connection_without_the_response_is_no_figure(
    way: str, message: str, tmp_path: Path
) -> None:
    address = ("127.0.0.1", free_port())
    content = b"nothing of the kind" if way == "closes-early" else b"Internal Server Error"
    load = replace(LOAD, url=f"http://127.0.0.1:{address[1]}/", expected_content=content)
    with start(liar(way), workload(), Place(tmp_path, address, (CPU,))) as server:
        server.wait_ready(address)
        words = find("hold").command(load)
        done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (1, ""), done
    assert done.stderr.startswith(message)
