"""Responses of WSGI applications; the numbers are those of the points that servers get wrong."""

from __future__ import annotations

import signal

import pytest

from support.client import Connection
from support.server import Server, Start
from wsgi.observed import seen, wait_seen

pytestmark = pytest.mark.slow


def request(method: str, path: str) -> bytes:
    """Return a request without content."""
    return f"{method} {path} HTTP/1.1\r\nHost: test\r\n\r\n".encode()


@pytest.mark.parametrize("path", ["/hello", "/blocks", "/late-start", "/write", "/file/x", "/p"])
def test_46_the_validator_is_silent(start: Start, threads: str, path: str) -> None:
    server = start("wsgi_validated.py", "--threads", threads)
    with server.connect() as client:
        for method in ("GET", "HEAD", "POST"):
            client.send(request(method, path))
            assert client.read(method).status in (200, 202), server.errors
    assert "ssertion" not in "".join(server.lines)


@pytest.mark.parametrize("threads", ["1", "8"])
def test_46_the_validator_itself_is_served(start: Start, threads: str) -> None:
    """It takes any arguments, so nothing shows what it is."""
    server = start("wsgi_validated.py:validated", "--interface", "wsgi", "--threads", threads)
    with server.connect() as client:
        assert client.get("/hello").content == b"Hello, world!"


def test_51_write_and_the_iterable_keep_their_order(client: Connection) -> None:
    assert client.get("/write").content == b"one,two,three,four"
    assert client.get("/write").content == b"one,two,three,four"


def test_52_the_head_waits_for_the_first_block(client: Connection) -> None:
    reply = client.get("/late-start")
    assert (reply.status, reply.content) == (202, b"late")


def test_52_an_error_before_the_first_block_is_500(server: Server, client: Connection) -> None:
    for path in ("/raises/started", "/closing/first/early", "/raises/plain"):
        assert client.get(path).status == 500
        server.wait_line(f"GET {path}: the application raised")
    assert client.get("/hello").content == b"Hello, world!"


def test_53_exc_info_replaces_a_head_that_was_not_sent(client: Connection) -> None:
    reply = client.get("/replaced/before")
    assert (reply.status, reply.content, reply.get("x-first")) == (500, b"replaced", None)


def test_53_exc_info_is_raised_again_after_the_head(server: Server) -> None:
    with server.connect() as client:
        client.send(request("GET", "/replaced/after"))
        assert client.read_head().status == 200
        assert client.read_to_end() == b"5\r\nbegun\r\n"
        server.wait_line("GET /replaced/after: the application raised")
        server.wait_line("ValueError: the first response failed")


@pytest.mark.parametrize("threads", ["1", "8"])
def test_53_exc_info_is_raised_again_in_a_stream(start: Start, threads: str) -> None:
    server = start("wsgi/restarting.py", "--threads", threads)
    with server.connect() as client:
        client.send(request("GET", "/streamed"))
        assert client.read_head().status == 200
        assert client.read_to_end() == b"5\r\nbegun\r\n"
    server.wait_line("GET /streamed: the application raised")
    server.wait_line("ValueError: the first response failed")


@pytest.mark.parametrize("threads", ["1", "8"])
def test_53_a_response_that_begins_while_another_starts_is_the_only_one(
    start: Start, threads: str
) -> None:
    server = start("wsgi/restarting.py", "--threads", threads)
    with server.connect() as client:
        reply = client.get("/within")
    assert (reply.status, reply.get("x-inner")) == (200, "1")
    assert reply.content.startswith(b"inner start_response() was called before")


def test_53_a_second_call_is_an_error(client: Connection) -> None:
    assert client.get("/wrong/twice").content.startswith(b"RuntimeError: start_response() was")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("how", "status"), [("normal", 200), ("early", 500), ("silent", 500), ("204", 204)]
)
def test_54_close_is_called_once(
    server: Server, client: Connection, threads: str, how: str, status: int, method: str
) -> None:
    name = f"{how}-{method}-{threads}"
    client.send(request(method, f"/closing/{name}/{how}"))
    assert client.read(method).status == status
    assert wait_seen(server, lambda found: name in found["closed"])["closed"][name] == 1


def test_54_close_is_called_once_when_the_response_is_cut(server: Server, threads: str) -> None:
    name = f"late-{threads}"
    with server.connect() as client:
        client.send(request("GET", f"/closing/{name}/late"))
        assert client.read_head().status == 200
        assert client.read_to_end() == b"5\r\nblock\r\n"
    assert wait_seen(server, lambda found: name in found["closed"])["closed"][name] == 1
    server.wait_line(f"GET /closing/{name}/late: the application raised")


def test_54_and_60_a_client_that_has_gone_ends_the_response(server: Server, threads: str) -> None:
    name = f"gone-{threads}"
    with server.connect() as client:
        client.send(request("GET", f"/endless/{name}"))
        assert client.read_head().status == 200
    assert wait_seen(server, lambda found: name in found["closed"])["closed"][name] == 1
    assert f"/endless/{name}" not in "".join(server.lines)


def test_55_empty_blocks_are_skipped(client: Connection) -> None:
    client.send(request("GET", "/blocks"))
    assert client.read_head().get("transfer-encoding") == "chunked"
    with_end = b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"
    client.send(b"GET /hello HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
    assert client.read_to_end().startswith(with_end)


def test_55_an_iterable_of_nothing_is_an_empty_response(client: Connection) -> None:
    reply = client.get("/empty")
    assert (reply.status, reply.get("content-length"), reply.content) == (200, "0", b"")


@pytest.mark.parametrize("how", ["list", "tuple", "many"])
def test_56_what_is_there_as_a_whole_has_a_length(client: Connection, how: str) -> None:
    reply = client.get(f"/unsized/{how}")
    assert (reply.get("content-length"), reply.content) == ("5", b"abcde")
    client.send(request("HEAD", f"/unsized/{how}"))
    assert client.read("HEAD").get("content-length") == "5"


def test_56_nothing_has_the_length_0(client: Connection) -> None:
    assert client.get("/unsized/none").get("content-length") == "0"


@pytest.mark.parametrize("how", ["list", "one", "iterator"])
def test_56_a_right_length_is_kept(client: Connection, how: str) -> None:
    reply = client.get(f"/sized/5/{how}")
    assert (reply.get("content-length"), reply.content) == ("5", b"abcde")
    client.send(request("HEAD", f"/sized/5/{how}"))
    assert client.read("HEAD").get("content-length") == "5"


@pytest.mark.parametrize("how", ["list", "one", "iterator"])
def test_56_what_is_beyond_the_length_is_dropped_and_logged(
    server: Server, client: Connection, how: str
) -> None:
    reply = client.get(f"/sized/4/{how}")
    assert (reply.get("content-length"), reply.content) == ("4", b"abcd")
    server.wait_line(f"GET /sized/4/{how}: its content is longer than its Content-Length")
    assert client.get("/hello").status == 200


@pytest.mark.parametrize(
    ("how", "rest"), [("list", b"abcde"), ("iterator", b"abcde"), ("none", b"")]
)
def test_56_a_response_shorter_than_its_length_is_cut_and_logged(
    server: Server, client: Connection, how: str, rest: bytes
) -> None:
    client.send(request("GET", f"/sized/9/{how}"))
    assert client.read_head().get("content-length") == "9"
    assert client.read_to_end() == rest
    server.wait_line(f"GET /sized/9/{how}: its content is shorter than its Content-Length")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("status-bytes", b"TypeError: start_response(): the status is a str such as '200 OK', not"),
        ("status-short", b"ValueError: start_response(): the status is a str such as"),
        ("status-glued", b"ValueError: start_response(): the status is a str such as"),
        ("status-line", b"ValueError: start_response(): the status is a str such as"),
        ("status-interim", b"ValueError: start_response(): the status is a str such as"),
        ("status-int", b"TypeError: start_response(): the status is a str such as"),
        ("status-control", b"ValueError: start_response(): the status is a str such as"),
        ("status-wide", b"ValueError: start_response(): a status or header holds characters"),
        ("value-line", b"ValueError: start_response(): malformed header X-A: a\\r\\nX-B: b"),
        ("value-wide", b"ValueError: start_response(): a status or header holds characters"),
        ("value-bytes", b"TypeError: start_response(): the name and the value of a header are str"),
        ("name", b"ValueError: start_response(): malformed header X A: a"),
        ("length", b"ValueError: start_response(): malformed header Content-Length: -1"),
        ("lengths", b"ValueError: start_response(): malformed header Content-Length: 2"),
        ("pair", b"TypeError: start_response(): a header is a tuple of two str, name and value"),
    ],
)
def test_57_what_start_response_refuses(client: Connection, how: str, message: bytes) -> None:
    assert client.get(f"/wrong/{how}").content.startswith(message)
    assert client.get("/hello").content == b"Hello, world!"


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("404_Not_Found", b"404 Not Found"),
        ("404", b"404 Not Found"),
        ("404_", b"404 Not Found"),
        ("404_Whatever", b"404 Whatever"),
        ("404__Not_Found", b"404 Not Found"),
        ("404__What_ever_", b"404 What ever"),
        ("200_Very_Well", b"200 Very Well"),
        ("299", b"299 "),
        ("600_x", b"600 x"),
        ("999_Wombat", b"999 Wombat"),
        ("500_caf%C3%A9", b"500 caf\xc3\xa9"),
    ],
)
def test_57_the_reason_phrase_is_the_applications(server: Server, said: str, line: bytes) -> None:
    """PEP 3333 has "999 Message here" among its examples."""
    for method in ("GET", "HEAD"):
        with server.connect() as client:
            target = f"/status/{said}"
            client.send(
                f"{method} {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n".encode()
            )
            reply = client.read_to_end()
        assert reply.startswith(b"HTTP/1.1 " + line + b"\r\n")
        assert reply.endswith(b"\r\n\r\n" + (b"content" if method == "GET" else b""))


def test_57_a_reason_phrase_is_streamed_and_forgotten_too(server: Server) -> None:
    with server.connect() as client:
        client.send(request("GET", "/streamed-status/999_Wombat"))
        assert client.read().content == b"onetwo"
        client.send(b"GET /hello HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
        assert client.read_to_end().startswith(b"HTTP/1.1 200 OK\r\n")


def test_57_fields_about_the_connection_are_left_out(start: Start, threads: str) -> None:
    """As other servers do; the log says so once for each field."""
    server = start("wsgi_plain.py", "--threads", threads)
    names = ["Keep-Alive", "Proxy-Connection", "TE", "Transfer-Encoding", "Upgrade"]
    with server.connect() as client:
        for name in ["connection", "CONNECTION", *names, *names]:
            reply = client.get(f"/field/{name}/close")
            assert (reply.status, reply.content) == (200, b"content")
            assert (reply.get(name), reply.get("x-after")) == (None, "1")
        assert client.get("/hello").content == b"Hello, world!"
    for name in ["connection", *[name.lower() for name in names]]:
        server.wait_line(f"WARN .*the application sets the field {name}, which is about the conn")
    server.signal(signal.SIGTERM)
    server.wait()
    assert server.errors.count("which is about the connection") == 6


def test_57_a_trailer_field_is_the_applications(client: Connection) -> None:
    assert client.get("/field/Trailer/x").get("trailer") == "x"


def test_57_set_cookie_stays_twice_and_values_are_latin_1(client: Connection) -> None:
    client.send(b"GET /cookies HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
    head = client.read_to_end()
    assert b"Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-L: caf\xe9\r\n" in head


@pytest.mark.parametrize(("status", "length"), [("204", None), ("304", None), ("205", "0")])
def test_57_some_statuses_have_no_content(
    client: Connection, status: str, length: str | None
) -> None:
    client.send(request("GET", f"/status/{status}") + request("GET", "/hello"))
    reply = client.read()
    assert (reply.status, reply.content) == (int(status), b"")
    if status != "304":
        assert reply.get("content-length") == length
    assert client.read().content == b"Hello, world!"


@pytest.mark.parametrize("how", ["str", "iterator"])
def test_57_blocks_are_bytes(server: Server, client: Connection, how: str) -> None:
    assert client.get(f"/block-kind/{how}").status == 500
    server.wait_line("TypeError: an application's blocks are bytes, not ")


FILE = (bytes(range(256)) * 1000)[100:]


@pytest.mark.parametrize(
    ("how", "content", "length"),
    [
        ("whole", FILE, "255900"),
        ("buffered", FILE, "255900"),
        ("short-part", FILE[:1000], "1000"),
        ("long-part", FILE[:200_000], "200000"),
        ("small", FILE[:900], "900"),
        ("small-part", FILE[:10], "10"),
        ("limit", FILE[:65_536], "65536"),
        ("one", FILE[:1], "1"),
        ("end", b"", "0"),
        ("empty", b"", "0"),
        ("zipped", FILE, None),
        ("bytes", b"bytes", None),
        ("pipe", b"piped", None),
    ],
)
def test_58_a_file_is_sent_from_its_position(
    server: Server, client: Connection, how: str, content: bytes, length: str | None
) -> None:
    reply = client.get(f"/file/{how}")
    assert (reply.content == content, reply.get("content-length")) == (True, length)
    assert reply.get("transfer-encoding") == (None if length else "chunked")
    assert client.get("/hello").status == 200
    assert f"/file/{how}" not in "".join(server.lines)
    assert client.get("/file-closed").content == b"True"


def test_58_a_file_that_the_system_makes_up_is_read_to_its_end(client: Connection) -> None:
    reply = client.get("/file/made-up")
    assert (reply.content[-1:], reply.get("content-length")) == (b"\n", None)
    assert client.get("/file-closed").content == b"True"


@pytest.mark.parametrize(("how", "content"), [("", FILE), ("small-", FILE[:900])])
def test_58_a_file_after_what_was_written(client: Connection, how: str, content: bytes) -> None:
    assert client.get(f"/file/{how}after-write").content == b"written," + content
    assert client.get("/file-closed").content == b"True"


@pytest.mark.parametrize(
    ("how", "length", "content"),
    [("too-long", "300000", FILE), ("small-too-long", "1000", FILE[:900])],
)
def test_58_a_file_shorter_than_its_length_is_cut(
    server: Server, client: Connection, how: str, length: str, content: bytes
) -> None:
    client.send(request("GET", f"/file/{how}"))
    assert client.read_head().get("content-length") == length
    assert client.read_to_end() == content
    server.wait_line(f"GET /file/{how}: its content is shorter than its Content-Length")
    with server.connect() as other:
        assert other.get("/file-closed").content == b"True"


def test_58_a_reader_needs_not_be_a_file(client: Connection) -> None:
    assert client.get("/file/reader").content == b"abcde"
    assert client.get("/file-closed").content == b"cannot be closed"


HEADED = [("whole", "255900"), ("short-part", "1000"), ("small", "900"), ("end", "0")]


@pytest.mark.parametrize(("how", "length"), HEADED)
def test_58_head_of_a_file(client: Connection, how: str, length: str) -> None:
    client.send(request("HEAD", f"/file/{how}"))
    assert client.read("HEAD").get("content-length") == length
    assert client.get("/file-closed").content == b"True"


def test_a_failure_is_logged_once(server: Server, client: Connection) -> None:
    before = "".join(server.lines).count("Traceback")
    assert client.get("/raises/exactly-once").status == 500
    server.wait_line("GET /raises/exactly-once: the application raised")
    server.wait_line("RuntimeError: on purpose")
    assert client.get("/hello").status == 200
    assert "".join(server.lines).count("exactly-once") == 1
    assert "".join(server.lines).count("Traceback") == before + 1


@pytest.mark.parametrize("how", ["exit", "interrupt"])
def test_an_exception_that_ends_programs_fails_its_request_only(
    server: Server, client: Connection, how: str
) -> None:
    workers = server.workers()
    for _ in range(2):
        assert client.get(f"/raises/{how}").status == 500
        server.wait_line(f"GET /raises/{how}: the application raised")
    assert client.get("/hello").status == 200
    assert server.workers() == workers


def test_contexts_are_fresh(client: Connection) -> None:
    for _ in range(3):
        assert client.get("/context").content == b"unset"


def test_no_loop_runs_where_the_application_does(client: Connection) -> None:
    for _ in range(2):
        assert client.get("/running-loop").content == b"NoneNoneown"


def test_pipelined_responses_come_in_order(client: Connection) -> None:
    paths = ["/hello", "/late-start", "/unsized/many", "/write", "/empty"] * 4
    client.send(b"".join(request("GET", path) for path in paths))
    wanted = [b"Hello, world!", b"late", b"abcde", b"one,two,three,four", b""] * 4
    assert [client.read().content for _ in paths] == wanted


def test_http_1_0_has_no_chunks(client: Connection) -> None:
    client.send(b"GET /blocks HTTP/1.0\r\n\r\n")
    reply = client.read()
    assert (reply.get("transfer-encoding"), reply.content) == (None, b"onetwo")


def test_nothing_is_left_open(server: Server) -> None:
    assert all(count == 1 for name, count in seen(server)["closed"].items() if "-" in name)
