"""What a worker does besides serving."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bolide.server import worker


def test_keys_of_old_tickets_are_forgotten_without_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "FORGET_S", 0)

    async def run() -> None:
        is_over = asyncio.Event()

        class Certificates:
            times = 0

            def forget_keys(self) -> None:
                self.times += 1
                if self.times == 3:
                    is_over.set()

        certificates: Any = Certificates()
        worker._forget_keys(certificates)
        async with asyncio.timeout(10):
            await is_over.wait()

    asyncio.run(run())
