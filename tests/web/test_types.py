"""What a type checker accepts of the micro-framework: what the server accepts, and no more."""

import re
from pathlib import Path

import pytest
from mypy import api

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
ACCEPTED = """\
import io
from collections.abc import AsyncIterator, Iterator
from typing import Any
from bolide import App, HTTPError, Request, Response

def parts() -> Iterator[bytes]:
    yield b""

async def async_parts() -> AsyncIterator[str]:
    yield ""

class Parts:
    def __iter__(self) -> Iterator[bytes]:
        yield b""

class AsyncParts:
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b""

Response("a"), Response(b"a"), Response(bytearray(b"a")), Response(memoryview(b"a")), Response()
Response(parts()), Response(async_parts()), Response(iter(["a"])), Response(io.BytesIO())
Response(Parts()), Response(AsyncParts())
Response(json={"a": 1}), Response(json=["a"]), Response("a", 404)

app = App()

@app.error_handler(HTTPError)
@app.error_handler(404, 405)
@app.error_handler("4xx", KeyError)
def handler(request: Request, error: Exception) -> Any:
    return ""
"""
REFUSED = [
    'Response({"a": 1})',
    'Response(body={"a": "b"})',
    'Response(["a"])',
    'Response({"a", "b"})',
    "Response(1)",
    'app.error_handler("404")',
    "app.error_handler((404, 405))",
]


def test_what_is_refused_when_it_runs_is_refused_when_it_is_checked(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(ACCEPTED + "\n".join(REFUSED) + "\n")
    config = ["--config-file", str(ROOT / "pyproject.toml")]
    cache = ["--cache-dir", str(ROOT / ".mypy_cache")]
    out, errors, _ = api.run([*config, *cache, str(program)])
    assert not errors
    lines = [int(line) for line in re.findall(r"^\S+program\.py:(\d+): error:", out, re.MULTILINE)]
    first = ACCEPTED.count("\n") + 1
    assert lines == list(range(first, first + len(REFUSED))), out
