"""Our pages beside those of the tools themselves: the same lines, labels, order, units, columns."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from load.samples import columns, parse_ab, parse_wrk
from support.server import Server, command

pytestmark = pytest.mark.tools

Ours = Callable[[str], str]
SENTENCE = re.compile(
    r"(?:WARNING|ERROR): "
    r"|\s+(?:deviation apart\. )?These results are (?:probably not that|NOT) reliable\."
)


def needs(tool: str) -> pytest.MarkDecorator:
    """Skip a test where a tool is not installed."""
    return pytest.mark.skipif(shutil.which(tool) is None, reason=f"{tool} is not installed")


def theirs(line: str) -> str:
    """Run the tool itself."""
    done = subprocess.run(line.split(), capture_output=True, text=True, timeout=20, check=True)
    return done.stdout


@pytest.fixture
def ours(tmp_path: Path) -> Ours:
    """Return a function that runs the same command line by `--like`."""

    def ours(line: str) -> str:
        code, out, _ = command("load", "--like", line, "--quiet", cwd=tmp_path)
        assert code == 0
        return out

    return ours


def shape(page: str) -> list[str]:
    """Return a page's lines with every figure replaced by N, and the units of wrk by U."""
    lines = [line for line in page.splitlines() if line.strip() and not SENTENCE.match(line)]
    masked = [re.sub(r"\b\d[\d.]*(?:(?:us|ms|s|k|M|KB|MB|GB)\b)?", "N", line) for line in lines]
    return [re.sub(r" +", " ", line) for line in masked]


AB_LINES = [
    "ab -n 300 -c 5 {url}/page/a",
    "ab -k -n 300 -c 5 {url}/page/a",
    "ab -k -n 300 -c 5 -S -d {url}/page/a",
    "ab -k -n 300 -c 5 {url}/status/404",
    "ab -k -n 300 -c 5 -p {file} -T text/x {url}/items",
    "ab -n 300 -c 5 -i -H A:b {url}/page/a",
]


@needs("ab")
@pytest.mark.parametrize("line", AB_LINES)
def test_ab(counting: Server, ours: Ours, tmp_path: Path, line: str) -> None:
    (tmp_path / "file").write_bytes(b"hello")
    line = line.format(url=counting.urls[0], file=tmp_path / "file")
    real, made = theirs(line), ours(line)
    begin = "Server Software:"
    assert shape(made[made.index(begin) :]) == shape(real[real.index(begin) :]) or "404" in line
    here, there = parse_ab(made), parse_ab(real)
    for label in (
        "Server Software",
        "Server Hostname",
        "Server Port",
        "Document Path",
        "Document Length",
        "Concurrency Level",
        "Complete requests",
        "Failed requests",
        "Non-2xx responses",
        "Keep-Alive requests",
        "Total transferred",
        "Total body sent",
        "HTML transferred",
    ):
        assert here.get(label) == there.get(label), label
    if "404" not in line:
        # Each warns if its own figures vary much.
        assert here.keys() - {"WARNING", "ERROR"} == there.keys() - {"WARNING", "ERROR"}
        assert here.get("percent", {}).keys() == there.get("percent", {}).keys()


@needs("ab")
def test_abs_table_has_the_same_columns(counting: Server, ours: Ours) -> None:
    line = f"ab -n 200 -c 2 {counting.urls[0]}/page/a"
    pages = (ours(line), theirs(line))
    for name in ("Connect:", "Processing:", "Waiting:", "Total:"):
        here, there = (
            [match.end() for match in re.finditer(r"\S+", line)]
            for page in pages
            for line in page.splitlines()
            if line.startswith(name)
        )
        assert here == there, name


@needs("wrk")
@pytest.mark.parametrize(
    "line",
    [
        "wrk -t1 -c4 -d1s --latency {url}/page/a",
        "wrk -t2 -c4 -d1s {url}/page/a",
        "wrk -t1 -c4 -d1s {url}/status/404",
    ],
)
def test_wrk(counting: Server, ours: Ours, line: str) -> None:
    line = line.format(url=counting.urls[0])
    real, made = theirs(line), ours(line)
    here, there = parse_wrk(made), parse_wrk(real)
    assert here["order"] == there["order"]
    for name in ("running", "threads"):
        assert here[name] == there[name]
    if "404" not in line:
        assert shape(made) == shape(real)
        assert list(columns(made)) == list(columns(real))
        assert here.get("percent", {}).keys() == there.get("percent", {}).keys()
