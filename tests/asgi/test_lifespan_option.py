"""The option `lifespan`."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.server import Start, command

pytestmark = pytest.mark.slow

APP = """
import sys

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        sys.stderr.write("called for a lifespan\\n")
        {how}
    else:
        await send({{"type": "http.response.start", "status": 204, "headers": []}})
        await send({{"type": "http.response.body"}})
"""
RAISES = 'await receive(); raise LookupError("no database")'
REFUSES = "assert False, 'http only'"
RETURNS = "return"


def write(folder: Path, how: str) -> None:
    (folder / "app.py").write_text(APP.format(how=how))


@pytest.mark.parametrize(
    ("how", "why"),
    [
        (RAISES, "LookupError: no database"),
        (REFUSES, "AssertionError: http only"),
        (RETURNS, "it returned without a startup (lifespan=on)"),
    ],
)
def test_with_on_there_must_be_a_startup(tmp_path: Path, how: str, why: str) -> None:
    write(tmp_path, how)
    code, _, errors = command("serve", "app:app", "--port", "0", "--lifespan", "on", cwd=tmp_path)
    assert code == 3
    assert errors.endswith(f"bolide: error: the application's startup failed: {why}\n")


@pytest.mark.parametrize(("option", "calls"), [("auto", 1), ("off", 0)])
@pytest.mark.parametrize("how", [RAISES, REFUSES, RETURNS])
def test_otherwise_it_is_served(
    start: Start, tmp_path: Path, how: str, option: str, calls: int
) -> None:
    write(tmp_path, how)
    server = start("app:app", "--lifespan", option, cwd=tmp_path)
    with server.connect() as client:
        assert client.get("/").status == 204
    assert server.errors.count("called for a lifespan") == calls


def test_what_is_mounted_has_it_too(tmp_path: Path) -> None:
    write(tmp_path, RAISES)
    (tmp_path / "main.py").write_text(
        "import bolide\nfrom app import app as own\napp = bolide.App()\napp.mount('/own', own)\n"
    )
    code, _, errors = command("serve", "main:app", "--port", "0", "--lifespan", "on", cwd=tmp_path)
    assert code == 3
    assert "the application's startup failed: mounted at /own: LookupError: no database\n" in errors
