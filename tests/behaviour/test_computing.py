"""What an application has sent arrives while it computes or blocks its thread.

The application goes on only when the test has received it, so nothing here is measured by a clock.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.client import Connection
from support.loops import Serving
from support.server import Server
from support.waiting import wait_until

pytestmark = pytest.mark.slow

STAGES = ("first", "later")
LetGo = Callable[[], None]


def ask(server: Server, target: str) -> Connection:
    """Connect and send a request."""
    client = server.connect()
    client.send(f"GET {target} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
    return client


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("what", ["parts", "lengthy", "waits", "thread"])
def test_each_part_of_an_asgi_application_arrives_before_it_goes_on(
    serving: Serving, way: str, path: Path, let_go: LetGo, stage: str, what: str
) -> None:
    server = serving("computing/asgi.py")
    with ask(server, f"/?{what},{stage},{way},{path}") as client:
        head = client.read_head()
        assert head.status == 200
        is_chunked = head.get("transfer-encoding") == "chunked"
        for part in (b"one", b"two"):
            assert client.read_until(part).endswith(b"3\r\n" + part if is_chunked else part)
            let_go()
        if is_chunked:
            assert client.read_until(b"0\r\n\r\n") == b"\r\n0\r\n\r\n"
        assert client.get("/").status == 200


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(("what", "content"), [("background", b"whole"), ("ended", b"onetwo")])
def test_a_background_task_that_computes_does_not_delay_its_response(
    serving: Serving, way: str, path: Path, let_go: LetGo, stage: str, what: str, content: bytes
) -> None:
    server = serving("computing/asgi.py")
    with server.connect() as client:
        before = client.get("/").json()["background"]
        assert client.get(f"/?{what},{stage},{way},{path}").content == content
        let_go()
        wait_until(lambda: client.get("/").json()["background"] == before + 1)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("what", ["short", "fails"])
def test_a_response_that_was_begun_so_and_fails_is_cut(
    serving: Serving, way: str, path: Path, let_go: LetGo, stage: str, what: str
) -> None:
    server = serving("computing/asgi.py")
    with ask(server, f"/?{what},{stage},{way},{path}") as client:
        client.read_until(b"one")
        let_go()
        assert b"0\r\n" not in client.read_to_end()


@pytest.mark.parametrize("stage", STAGES)
def test_an_interim_response_arrives_before_the_application_goes_on(
    serving: Serving, way: str, path: Path, let_go: LetGo, stage: str
) -> None:
    server = serving("computing/asgi.py")
    with ask(server, f"/?hint,{stage},{way},{path}") as client:
        assert client.read_until(b"\r\n\r\n").startswith(
            b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n"
        )
        let_go()
        assert client.read().content == b"hinted"


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("what", ["trailers", "file", "long_file"])
def test_a_trailer_section_and_a_file_arrive_before_the_application_goes_on(
    serving: Serving, way: str, path: Path, let_go: LetGo, stage: str, what: str
) -> None:
    server = serving("computing/asgi.py", "--asgi-extensions", "pathsend")
    with server.connect() as client:
        before = client.get("/").json()["background"]
        fields = "Host: test\r\nTE: trailers\r\nConnection: TE"
        client.send(f"GET /?{what},{stage},{way},{path} HTTP/1.1\r\n{fields}\r\n\r\n".encode())
        if what == "long_file":
            assert len(client.read().content) == 5_000_000
        elif what == "file":
            assert client.read().content.startswith(b'"""An ASGI application')
        else:
            client.read_until(b"0\r\na: b\r\n\r\n")
        let_go()
        wait_until(lambda: client.get("/").json()["background"] == before + 1)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("what", ["parts", "lengthy", "background", "ended"])
def test_what_precedes_the_end_of_the_content_arrives_before_the_application_goes_on(
    serving: Serving, way: str, path: Path, let_go: LetGo, stage: str, what: str
) -> None:
    server = serving("computing/asgi.py")
    with server.connect() as client:
        target = f"/?{what},{stage},{way},{path}"
        client.send(f"POST {target} HTTP/1.1\r\nHost: test\r\nContent-Length: 9\r\n\r\n".encode())
        for each in (b"whole",) if what == "background" else (b"one", b"two"):
            client.read_until(each)
            if what != "ended" or each == b"two":
                let_go()
        if what in ("parts", "ended"):
            client.read_until(b"0\r\n\r\n")
        client.send(b"123456789")
        assert client.get("/").status == 200


@pytest.mark.parametrize("what", ["parts", "lengthy", "waits", "hint", "background", "ended"])
def test_what_an_eager_task_sends_arrives_before_it_goes_on(
    serving: Serving, way: str, path: Path, let_go: LetGo, what: str
) -> None:
    server = serving("computing/eager.py")
    parts = {"hint": (b"103 ",), "background": (b"whole",)}.get(what, (b"one", b"two"))
    with ask(server, f"/?{what},first,{way},{path}") as client:
        for content in parts:
            client.read_until(content)
            if what != "ended" or content == b"two":
                let_go()
        if what == "hint":
            client.read_until(b"hinted")
        elif what not in ("lengthy", "background"):
            client.read_until(b"0\r\n\r\n")
        assert client.get("/").status == 200


@pytest.mark.parametrize("stage", STAGES)
def test_a_response_without_content_does_not_wait_for_its_client(
    serving: Serving, stage: str
) -> None:
    server = serving("computing/asgi.py")
    with server.connect() as client:
        before = client.get("/").json()["background"]
        client.send(f"HEAD /?discarded,{stage},, HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        assert client.read("HEAD").status == 200
        wait_until(lambda: client.get("/").json()["background"] == before + 1)


@pytest.mark.parametrize("stage", STAGES)
def test_what_is_sent_for_another_request_arrives_before_the_application_goes_on(
    serving: Serving, way: str, path: Path, let_go: LetGo, stage: str
) -> None:
    server = serving("computing/asgi.py")
    with ask(server, "/?another,first,,") as waiting:
        with ask(server, f"/?sends,{stage},{way},{path}") as client:
            assert waiting.read().content == b"another's"
            let_go()
            client.read_until(b"own")


@pytest.mark.parametrize("what", ["plain", "first", "later"])
def test_each_part_of_a_native_generator_arrives_before_it_goes_on(
    serving: Serving, way: str, path: Path, let_go: LetGo, what: str
) -> None:
    server = serving("computing/native.py")
    with ask(server, f"/{what}?way={way}&path={path}") as client:
        assert client.read_head().status == 200
        assert client.read_until(b"one") == b"3\r\none"
        let_go()
        assert client.read_until(b"two") == b"\r\n3\r\ntwo"
        let_go()
        assert client.read_until(b"0\r\n\r\n") == b"\r\n0\r\n\r\n"


@pytest.mark.parametrize("threads", ["1", "4"])
@pytest.mark.parametrize("what", ["write", "write-lengthy", "blocks", "blocks-lengthy"])
def test_each_block_of_a_wsgi_application_arrives_before_it_goes_on(
    serving: Serving, way: str, path: Path, let_go: LetGo, what: str, threads: str
) -> None:
    server = serving("computing/wsgi.py", "--threads", threads)
    with ask(server, f"/?{what},{way},{path}") as client:
        is_chunked = client.read_head().get("transfer-encoding") == "chunked"
        for part in (b"one", b"two"):
            assert client.read_until(part).endswith(b"3\r\n" + part if is_chunked else part)
            let_go()
        if is_chunked:
            assert client.read_until(b"0\r\n\r\n") == b"\r\n0\r\n\r\n"


@pytest.mark.parametrize("threads", ["1", "4"])
@pytest.mark.parametrize(("what", "content"), [("lengthy", b"onetwo"), ("empty", b"")])
def test_a_response_arrives_before_a_wsgi_application_has_closed_it(
    serving: Serving, way: str, path: Path, let_go: LetGo, what: str, content: bytes, threads: str
) -> None:
    server = serving("computing/wsgi.py", "--threads", threads)
    with ask(server, f"/?closes-{what},{way},{path}") as client:
        assert client.read().content == content
        let_go()
        assert client.get("/").content == b"quick"


def test_a_response_arrives_before_it_is_closed_while_other_requests_wait(
    serving: Serving, way: str, path: Path, let_go: LetGo
) -> None:
    server = serving("computing/wsgi.py", "--threads", "1")
    with server.connect() as busy, server.connect() as closing, server.connect() as other:
        assert [each.get("/").status for each in (busy, closing, other)] == [200, 200, 200]
        busy.send(f"GET /?keeps,{way},{path} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        wait_until(Path(f"{path}.kept").exists)
        target = f"/?closes-lengthy,{way},{path}"
        closing.send(f"GET {target} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        other.send(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")
        let_go()
        assert busy.read().content == b"keeps"
        assert closing.read().content == b"onetwo"
        let_go()
        assert other.read().content == b"quick"


def test_blocks_follow_what_was_passed_to_write(
    serving: Serving, way: str, path: Path, let_go: LetGo
) -> None:
    server = serving("computing/wsgi.py", "--threads", "1")
    with ask(server, f"/?both,{way},{path}") as client:
        assert client.read_head().get("transfer-encoding") == "chunked"
        for part in (b"one", b"two", b"one", b"two"):
            assert client.read_until(part).endswith(b"3\r\n" + part)
            let_go()
        assert client.read_until(b"0\r\n\r\n") == b"\r\n0\r\n\r\n"


@pytest.mark.parametrize("threads", ["1", "4"])
def test_an_application_that_raises_after_write_truncates_its_response(
    serving: Serving, way: str, path: Path, let_go: LetGo, threads: str
) -> None:
    server = serving("computing/wsgi.py", "--threads", threads)
    with ask(server, f"/?fails,{way},{path}") as client:
        for part in (b"one", b"two"):
            client.read_until(part)
            let_go()
        assert b"0\r\n" not in client.read_to_end()
