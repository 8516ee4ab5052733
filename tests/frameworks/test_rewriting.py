"""Files pass through middleware that rewrites or counts the content, as on any server."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from support.server import Start

FILE = Path(__file__).parent / "applications" / "rewriting.py"
PATHS = ["/file", "/static/rewriting.py"]


@pytest.mark.parametrize("path", PATHS)
def test_gzip_compresses_files(serve: Start, path: str) -> None:
    with serve("rewriting").connect() as client:
        reply = client.get(f"/gzip{path}", "Accept-Encoding: gzip")
    assert (reply.status, reply.get("content-encoding")) == (200, "gzip")
    assert gzip.decompress(reply.content) == FILE.read_bytes()


@pytest.mark.parametrize("path", PATHS)
def test_counter_sees_each_octet_of_a_file(serve: Start, path: str) -> None:
    with serve("rewriting").connect() as client:
        reply = client.get(f"/counter{path}")
        assert (reply.status, reply.content) == (200, FILE.read_bytes())
        assert client.get("/counted").content == b"%d" % FILE.stat().st_size
