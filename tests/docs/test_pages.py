"""What the documents have their readers do works, and prints what they say."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import support.nginx
from docs.page import ROOT, File, steps
from docs.reader import BIN, Reader

TUTORIAL = ("application", "data", "testing", "settings")
GUIDES = ("frameworks", "proxy", "slow-work", "uploads")
UNIT = "/etc/systemd/system/shop.service"
SITE = "/etc/nginx/conf.d/shop.conf"

pytestmark = [
    pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl"),
    pytest.mark.tools,
]


@pytest.fixture
def reader() -> Iterator[Reader]:
    """Return a reader with an empty folder, whose name is short enough for a UNIX socket in it."""
    with tempfile.TemporaryDirectory(prefix="bolide-") as folder:
        reader = Reader(Path(folder))
        yield reader
        reader.close()


def test_the_readme_works(reader: Reader) -> None:
    reader.follow(ROOT / "README.md")
    assert reader.commands == 3


def test_the_tutorial_works(reader: Reader) -> None:
    counts = []
    for name in TUTORIAL:
        reader.follow(ROOT / f"docs/tutorial/{name}.md")
        counts.append(reader.commands)
    assert counts == [7, 13, 14, 18]


@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_works(reader: Reader, name: str) -> None:
    reader.follow(ROOT / f"docs/guide/{name}.md")
    assert reader.commands >= 2


@pytest.mark.skipif(shutil.which("nginx") is None, reason="needs nginx")
def test_the_deployment_works(reader: Reader) -> None:
    folder = reader.root / "srv/shop"
    (folder / ".venv").mkdir(parents=True)
    (folder / ".venv/bin").symlink_to(BIN)
    (reader.root / "run/shop").mkdir(parents=True)
    for step in steps(ROOT / "docs/tutorial/data.md"):
        if isinstance(step, File):
            reader.write(File("/srv/shop/shop.py", step.content))
    with ExitStack() as running:
        for step in steps(ROOT / "docs/tutorial/deployment.md"):
            if isinstance(step, File):
                reader.write(step)
                if step.name == SITE:
                    running.enter_context(nginx(reader))
            elif step.line != f"systemd-analyze verify {UNIT}":
                reader.run(step)
            else:
                if shutil.which("systemd-analyze") is not None:
                    reader.run(step)
                reader.serve_unit(UNIT)
        assert reader.commands >= 2
        reader.stop()


@contextmanager
def nginx(reader: Reader) -> Iterator[None]:
    """Run nginx with the configuration that the page has written."""
    socket = reader.root / "nginx.sock"
    reader.replace("http://127.0.0.1:8080/", f"--unix-socket {socket} http://127.0.0.1/")
    site = Path(reader.local(SITE))
    site.write_text(site.read_text().replace("listen 8080;", f"listen unix:{socket};"))
    with support.nginx.nginx(reader.root, site):
        yield
