"""20 reloads under load: clients and the application keep ledgers, which must agree."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from support.mixed_load import APP, MixedLoad
from support.server import Start
from support.waiting import wait_until

pytestmark = pytest.mark.alone

RELOADS = 20


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("workers", ["1", "2"])
def test_20_reloads_lose_nothing(start: Start, tmp_path: Path, workers: str) -> None:
    (tmp_path / "app.py").write_text(APP)
    server = start("app:app", "--workers", workers, "--h2c", cwd=tmp_path)
    load = MixedLoad(server)
    try:
        reloads = 0
        while reloads < RELOADS or load.is_running:
            server.signal(signal.SIGHUP)
            server.wait_line(r"reloaded in \d+\.\d s: \d workers?$")
            reloads += 1
        # Afterwards a client that closes is not closed by the server at the same time.
        wait_until(lambda: len(server.workers()) == int(workers), patience_s=30)
    finally:
        load.end()
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    load.check((tmp_path / "ledger").read_text(), RELOADS)
    assert "has not drained" not in server.errors and "ERROR" not in server.errors
