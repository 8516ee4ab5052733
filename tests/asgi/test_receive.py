"""What `receive()` gives and when (points 12 to 19; their back-pressure is in test_flow.py)."""

from __future__ import annotations

import select

import pytest

from asgi.held import Seen, release, wait_held
from support.client import Connection
from support.peer import end
from support.request import head, upload
from support.server import Server
from support.waiting import wait_until

pytestmark = pytest.mark.slow

APP = "asgi/receiving.py"
CHUNKED = "Transfer-Encoding: chunked"
EXPECT = "Expect: 100-continue"


def test_12_content_comes_dechunked(client: Connection) -> None:
    client.send(head("POST", "/echo", CHUNKED))
    client.send(b"5;name=value\r\nhello\r\n1\r\n!\r\n0\r\nX-Trailer: 1\r\n\r\n")
    assert client.read().content == b"hello!"


@pytest.mark.parametrize("size", [0, 1, 1000, 65535, 65536, 65537, 200_000, 3_000_000])
@pytest.mark.parametrize("path", ["/upload/now", "/upload/late"])
@pytest.mark.parametrize("coding", ["length", "chunked"])
def test_12_messages_hold_the_content_and_the_last_says_so(
    client: Connection, path: str, size: int, coding: str
) -> None:
    content = b"c" * size
    if coding == "length":
        client.send(upload(path, content))
    else:
        parts = [content[at : at + 50_000] for at in range(0, size, 50_000)]
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
        client.send(head("POST", path, CHUNKED) + chunks + b"0\r\n\r\n")
    messages = client.read().json()
    assert sum(length for length, _ in messages) == size
    assert [more for _, more in messages] == [True] * (len(messages) - 1) + [False]
    assert [0, True] not in messages


def test_12_content_in_single_bytes_has_no_empty_message_before_the_last(
    client: Connection,
) -> None:
    for byte in head("POST", "/upload/now", CHUNKED) + b"1\r\na\r\n" * 10 + b"0\r\n\r\n":
        client.send(bytes([byte]))
    messages = client.read().json()
    assert [0, True] not in messages
    assert (sum(length for length, _ in messages), messages[-1][1]) == (10, False)


def test_12_parts_that_arrive_together_are_all_given(client: Connection, seen: Seen) -> None:
    before = seen("uploading")
    client.send(head("POST", "/upload/now", CHUNKED))
    wait_until(lambda: seen("uploading") == before + 1)
    client.send(b"5\r\nhello\r\n" * 3 + b"1\r\n!\r\n0\r\n\r\n")
    messages = client.read().json()
    assert sum(length for length, _ in messages) == 16
    assert [more for _, more in messages] == [True] * (len(messages) - 1) + [False]


EMPTY = {
    "get": head("GET", "/blocks"),
    "post": head("POST", "/blocks"),
    "length": head("POST", "/blocks", "Content-Length: 0"),
    "chunked": head("POST", "/blocks", CHUNKED) + b"0\r\n\r\n",
}


@pytest.mark.parametrize("way", EMPTY)
def test_13_without_content_there_is_one_empty_message(
    client: Connection, seen: Seen, way: str
) -> None:
    client.send(EMPTY[way])
    messages, last_bytes, is_more_there = client.read().json()
    assert (messages, last_bytes, is_more_there) == (1, 0, False)
    wait_until(lambda: seen("blocks") == "http.disconnect")


@pytest.mark.parametrize("size", [1, 200_000])
def test_14_receive_blocks_after_the_content(client: Connection, size: int) -> None:
    client.send(upload("/blocks", b"c" * size))
    assert client.read().json()[2] is False


def test_14_receive_blocks_until_the_disconnect(server: Server, seen: Seen) -> None:
    waiting, waited = seen("waiting"), seen("waited")
    with server.connect() as client:
        client.send(upload("/wait", b"content"))
        wait_until(lambda: seen("waiting") == waiting + 1)
        assert seen("waited") == waited
    wait_until(lambda: seen("waited") == waited + 1)
    assert seen("wait") == "http.disconnect"


def test_14_a_pipelined_request_does_not_end_the_one_before(server: Server, seen: Seen) -> None:
    waiting, waited = seen("waiting"), seen("waited")
    with server.connect() as client:
        client.send(head("GET", "/wait") + head("GET", "/seen"))
        wait_until(lambda: seen("waiting") == waiting + 1)
        assert seen("waited") == waited
    wait_until(lambda: seen("waited") == waited + 1)


@pytest.mark.parametrize("way", ["now", "later", "parts"])
def test_15_after_the_response_receive_gives_the_disconnect(
    client: Connection, seen: Seen, way: str
) -> None:
    assert client.get(f"/after/{way}").content == b"done"
    wait_until(lambda: seen(f"after {way}") == ["http.disconnect"] * 3)
    assert client.get(f"/after/{way}").content == b"done"


@pytest.mark.parametrize("way", ["whole", "parts"])
def test_15_the_end_of_the_response_wakes_a_pending_receive(
    client: Connection, seen: Seen, way: str
) -> None:
    assert client.get(f"/watched/{way}").content == b"done"
    wait_until(lambda: seen(f"watched {way}") == "http.disconnect")


REQUESTS = {
    "read": head("GET", "/watch/read"),
    "unread": head("GET", "/watch/unread"),
    "unread content": upload("/watch/unread", b"content"),
    "inside content": head("POST", "/watch/unread", "Content-Length: 9") + b"half",
    "before content": head("POST", "/watch/unread", "Content-Length: 9"),
    "last": head("GET", "/watch/read", "Connection: close"),
    "inside a chunk": head("POST", "/watch/unread", CHUNKED) + b"9\r\nhalf",
}


@pytest.mark.parametrize("way", ["end", "reset"])
@pytest.mark.parametrize("request_name", REQUESTS)
def test_16_a_watcher_learns_at_once_that_the_client_has_gone(
    server: Server, seen: Seen, request_name: str, way: str
) -> None:
    watching, watchers = seen("watching"), seen("watchers")
    client = server.connect()
    client.send(REQUESTS[request_name])
    wait_until(lambda: seen("watching") == watching + 1)
    assert seen("watchers") == watchers
    end(client, way)
    wait_until(lambda: seen("watchers") == watchers + 1)


@pytest.mark.parametrize("way", ["end", "reset"])
def test_16_also_when_another_request_waits(server: Server, seen: Seen, way: str) -> None:
    watching, watchers = seen("watching"), seen("watchers")
    client = server.connect()
    client.send(head("GET", "/watch/read") + upload("/watch/read", b"content"))
    wait_until(lambda: seen("watching") == watching + 1)
    end(client, way)
    # After a FIN, the request that waits is called too, for a client that has gone.
    count = {"end": 2, "reset": 1}[way]
    wait_until(lambda: seen("watchers") == watchers + count)


@pytest.mark.parametrize("way", ["end", "reset"])
def test_16_a_client_that_went_meanwhile_is_gone_when_the_application_asks(
    server: Server, seen: Seen, way: str
) -> None:
    held = seen("held")
    client = server.connect()
    client.send(head("GET", "/own"))
    wait_held(seen, held)
    end(client, way)
    release(server)
    wait_until(lambda: seen("own") == "http.disconnect")


def test_17_a_cancelled_receive_raises_and_loses_nothing(client: Connection, seen: Seen) -> None:
    before = seen("cancelled")
    client.send(head("POST", "/cancelled", "Content-Length: 7"))
    wait_until(lambda: seen("cancelled") == before + 5)
    client.send(b"con")
    client.send(b"tent")
    assert client.read().content == b"content"


def test_17_a_receive_that_times_out_loses_nothing(client: Connection, seen: Seen) -> None:
    before = seen("timed")
    client.send(head("POST", "/timed", "Content-Length: 7"))
    wait_until(lambda: seen("timed") == before + 6)
    client.send(b"content")
    assert client.read().content == b"content"


def test_17_a_receive_cancelled_as_its_message_arrives_loses_nothing(
    client: Connection, seen: Seen
) -> None:
    racing, raced = seen("racing"), seen("raced")
    client.send(head("POST", "/raced", "Content-Length: 7"))
    wait_until(lambda: seen("racing") == racing + 1)
    client.send(b"content")
    assert client.read().content == b"content"
    assert seen("raced") == raced + 1


def test_17_two_receives_at_once_have_a_message_each(server: Server, seen: Seen) -> None:
    before = seen("two")
    with server.connect() as client:
        client.send(head("POST", "/two", "Content-Length: 7"))
        wait_until(lambda: seen("two") == before + 1)
        client.send(b"content")
        wait_until(lambda: seen("two first") == ["http.request"])
    wait_until(lambda: seen("two then") == ["http.disconnect"])


@pytest.mark.parametrize("way", ["silent", "begun"])
def test_15_tasks_that_a_failed_application_left_do_not_wait_for_ever(
    server: Server, seen: Seen, way: str
) -> None:
    names = ["left waiting", "left late", "left late send"]
    expected = ["http.disconnect", "http.disconnect", "ClientDisconnected"]
    if way == "begun":
        names.append("left sending")
        expected.append("ClientDisconnected")
    with server.connect() as client:
        client.send(head("GET", f"/left/{way}"))
        wait_until(lambda: [seen(name) for name in names] == expected)


CUT = {
    "no content": head("POST", "/upload/now", "Content-Length: 9"),
    "half of it": head("POST", "/upload/now", "Content-Length: 9") + b"half",
    "no chunk": head("POST", "/upload/now", CHUNKED),
    "in a chunk": head("POST", "/upload/now", CHUNKED) + b"9\r\nhalf",
    "no last chunk": head("POST", "/upload/now", CHUNKED) + b"4\r\nhalf\r\n",
    "no end": head("POST", "/upload/now", CHUNKED) + b"4\r\nhalf\r\n0\r\n",
}


@pytest.mark.parametrize("where", CUT)
@pytest.mark.parametrize("way", ["now", "late"])
def test_18_a_cut_content_is_a_disconnect(server: Server, seen: Seen, where: str, way: str) -> None:
    before = seen("disconnects")
    with server.connect() as client:
        client.send(CUT[where].replace(b"/now", f"/{way}".encode()))
    wait_until(lambda: seen("disconnects") == before + 1)


def is_silent(client: Connection) -> bool:
    """Return whether nothing has arrived."""
    return not select.select([client.socket], [], [], 0)[0]


def test_19_100_is_sent_when_the_application_receives(
    server: Server, client: Connection, seen: Seen
) -> None:
    held = seen("held")
    client.send(head("POST", "/held", "Content-Length: 2", EXPECT))
    wait_held(seen, held)
    assert is_silent(client)
    release(server)
    assert client.read_head().status == 100
    client.send(b"hi")
    assert client.read().content == b"hi"


def test_19_no_100_is_sent_if_the_application_does_not_receive(client: Connection) -> None:
    client.send(head("POST", "/silent", "Content-Length: 2", EXPECT))
    reply = client.read()
    assert (reply.interim, reply.content, reply.is_last) == ([], b"unread", True)


def test_19_no_100_is_sent_for_content_that_has_come(
    server: Server, client: Connection, seen: Seen
) -> None:
    client.send(head("POST", "/echo", "Content-Length: 2", EXPECT) + b"hi")
    reply = client.read()
    assert (reply.interim, reply.content) == ([], b"hi")


def test_19_content_that_nobody_received_is_no_request(
    server: Server, client: Connection, seen: Seen
) -> None:
    held = seen("held")
    client.send(upload("/silent/held", head("GET", "/echo")) + head("GET", "/silent"))
    wait_held(seen, held)
    release(server)
    assert [client.read().content for _ in range(2)] == [b"unread"] * 2
    assert is_silent(client)
