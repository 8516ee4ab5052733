"""`bolide status` and the others with a server of another version, and with other programs."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest
from click.testing import CliRunner

from bolide.config.address import Address
from bolide.errors import Error
from bolide.manage import client as module
from bolide.manage import command
from bolide.manage.client import Client, UnreachableError
from bolide.manage.rates import between
from bolide.manage.status import read
from bolide.manage.view import status_text


@contextmanager
def responding(content: bytes, status: bytes = b"200 OK") -> Iterator[str]:
    """Serve one response to whatever is asked, and yield the address."""
    response = b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status, len(content), content)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def respond() -> None:
            with suppress(OSError):
                while True:
                    peer, _ = listening.accept()
                    with peer:
                        peer.recv(4096)
                        peer.sendall(response)

        thread = threading.Thread(target=respond, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def run(at: str, name: str, *options: str) -> tuple[str, Exception | None]:
    found = CliRunner().invoke(getattr(command, name), ["--management", at, *options])
    error = found.exception
    assert error is None or isinstance(error, Error)
    return found.output, error


def test_what_a_server_does_not_say_is_unknown() -> None:
    with responding(b'{"workers": [{}, {"pid": 7, "state": "serving"}]}') as at:
        output, error = run(at, "status")
    assert error is None
    assert output.splitlines() == [
        "Bolide unknown unknown unknown (pid unknown, for unknown)",
        "",
        " worker      pid    state      age   memory  requests  connections     busy",
        "unknown  unknown  unknown  unknown  unknown   unknown      unknown  unknown",
        "unknown        7  serving  unknown  unknown   unknown      unknown  unknown",
    ]


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 200_000,
        b'{"workers": [], "options": {"a": ' + b"[" * 200_000,
        b"{}",
        b"[]",
        b'{"workers": [7]}',
        b'{"workers": [], "pid": "7"}',
        b'{"workers": [], "reloads": {"results": []}}',
        b'{"workers": [], "state": "\xff"}',
        b"\x00",
        b"",
    ],
)
@pytest.mark.parametrize("arguments", [["status"], ["status", "--json"], ["reload"], ["stop"]])
def test_what_is_no_status_is_one_line(content: bytes, arguments: list[str]) -> None:
    with responding(content) as at:
        output, error = run(at, *arguments)
    assert output == ""
    assert str(error) == f"what responds at {at} is not a management listener of Bolide"


@pytest.mark.parametrize("depth", [400, 900, 10_000])
@pytest.mark.parametrize("name", [b"new", b"options"])
def test_no_depth_is_an_unexpected_error(depth: int, name: bytes) -> None:
    nested = b'{"a": ' * depth + b"1" + b"}" * depth
    with responding(b'{"workers": [], "%b": %b}' % (name, nested)) as at:
        for options in ((), ("--json",)):
            output, error = run(at, "status", *options)
            assert bool(output) == (error is None)


def test_texts_of_a_server_control_no_terminal() -> None:
    attack = "\x1b]0;PWN\x07"
    status = {
        "version": attack,
        "state": attack,
        "application": attack,
        "exits": {attack: 1},
        "options": {attack: attack, "bind": [attack]},
        "workers": [{"state": attack}],
    }
    text = status_text(read(json.dumps(status).encode()))
    assert "\x1b" not in text and "\x07" not in text
    assert text.count(r"\x1b]0;PWN\x07") == 8
    with responding(attack.encode(), b"503 Busy") as at:
        _, error = run(at, "status")
        assert str(error) == rf"{at} refuses with 503: \x1b]0;PWN\x07"


def test_all_of_a_status_is_in_the_json_without_control_characters() -> None:
    status: dict[str, Any] = {"workers": [], "new": {"in a later version": "\x1b"}}
    with responding(json.dumps(status).encode()) as at:
        output, error = run(at, "status", "--json")
    assert error is None and json.loads(output) == status and "\x1b" not in output


def test_bounds_that_are_no_numbers_are_passed_over() -> None:
    names = [
        f'bolide_http_request_duration_seconds_bucket{{le="{le}"}}'
        for le in ("x", "1.2.3", ".", "1", "+Inf")
    ]
    rates = between({}, dict.fromkeys(names, 5.0), 1.0)
    assert rates.median_s == 1.0


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"])
def test_a_response_has_one_time_limit_however_slowly_it_arrives(
    monkeypatch: pytest.MonkeyPatch, start: bytes
) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 0.2)
    is_over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            peer, _ = listening.accept()
            with peer, suppress(OSError):
                peer.sendall(start)
                while not is_over.wait(0.01):
                    peer.sendall(b"H")

        thread = threading.Thread(target=drip)
        thread.start()
        address = Address("127.0.0.1", listening.getsockname()[1])
        try:
            with pytest.raises(UnreachableError, match="timed out"):
                Client(address).status()
        finally:
            is_over.set()
            thread.join()


def test_a_name_that_is_not_found_in_time_has_the_same_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 0.2)
    is_over = threading.Event()

    def getaddrinfo(*_: object, **__: object) -> list[object]:
        is_over.wait()
        return []

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    try:
        with pytest.raises(UnreachableError, match="timed out"):
            Client(Address("management.test", 8000)).status()
    finally:
        is_over.set()


def test_an_address_that_does_not_respond_leaves_time_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 2.0)
    with responding(b'{"workers": []}') as at, ExitStack() as stack:
        # The queue of this one is full, so that another connection waits for ever.
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            queued = stack.enter_context(socket.socket())
            queued.setblocking(False)
            queued.connect_ex(silent.getsockname())
        port = int(at.rpartition(":")[2])
        places = [silent.getsockname(), ("127.0.0.1", port)]
        found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", place) for place in places]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        assert Client(Address("management.test", port)).status().workers == ()
