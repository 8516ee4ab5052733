"""Flask: its factory, and sessions that it keeps in a cookie."""

from __future__ import annotations

import pytest

from support.server import Start

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("target", ["on_flask", "on_flask --factory", "on_flask --threads 1"])
def test_session_is_kept_in_a_cookie(serve: Start, target: str) -> None:
    with serve(*target.split()).connect() as client:
        reply = client.get("/visit")
        visits = [reply.json()["visits"]]
        for _ in range(2):
            cookie = (reply.get("set-cookie") or "").partition(";")[0]
            reply = client.get("/visit", f"Cookie: {cookie}")
            visits.append(reply.json()["visits"])
        assert visits == [1, 2, 3]
