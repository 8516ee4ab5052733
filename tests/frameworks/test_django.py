"""Django: sessions in a database, uploads on disk, asynchronous views; over both interfaces."""

from __future__ import annotations

import pytest

from support import form
from support.server import Start

pytestmark = pytest.mark.slow

APPLICATIONS = ["on_django", "on_django:wsgi"]


@pytest.mark.parametrize("application", APPLICATIONS)
def test_session_is_kept_in_the_database(serve: Start, application: str) -> None:
    with serve(application).connect() as client, serve(application).connect() as other:
        first = client.get("/visit")
        cookie = (first.get("set-cookie") or "").partition(";")[0]
        assert cookie.startswith("sessionid=")
        counts = [client.get("/visit", f"Cookie: {cookie}").json()["visits"] for _ in range(3)]
        assert (first.json(), counts) == ({"visits": 1}, [2, 3, 4])
        assert other.get("/visit").json() == {"visits": 1}


@pytest.mark.parametrize("application", APPLICATIONS)
def test_upload_beyond_its_memory_goes_to_disk(serve: Start, application: str) -> None:
    with serve(application).connect() as client:
        for size, is_on_disk in ((1000, "False"), (3_000_000, "True")):
            field_line, content = form.multipart({"title": "t"}, {"file": ("f", b"x" * size)})
            assert client.post("/upload", content, field_line).get("x-on-disk") == is_on_disk


@pytest.mark.parametrize("application", APPLICATIONS)
def test_asynchronous_view(serve: Start, application: str) -> None:
    with serve(application).connect() as client:
        client.send(b"GET /waits HTTP/1.1\r\nHost: test\r\n\r\n" * 3)
        assert [client.read().content for _ in range(3)] == [b"waited"] * 3


@pytest.mark.parametrize("application", APPLICATIONS)
def test_host_that_is_not_allowed_is_400(serve: Start, application: str) -> None:
    with serve(application).connect() as client:
        client.send(b"GET /hello HTTP/1.1\r\nHost: other\r\n\r\n")
        assert client.read().status == 400
        assert client.get("/hello").status == 200
