"""TLS and HTTP/2 are proved before a load: certificate, protocol, resumption, responses."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bolide.lab.plan import contestant, environments
from bolide.lab.plan.contestant import Contestant
from bolide.lab.record.schema import Workload
from bolide.lab.trial.launch import Place, start
from bolide.lab.trial.process import free_port
from bolide.lab.trial.secure import Client, Pair, WrongHandshakeError, new_pair
from bolide.lab.trial.verify import Proof, WrongResponseError, verify
from lab.tiny_race import CPU, workload

pytestmark = pytest.mark.slow

PAIR = new_pair()
HELLO = {"content": "Hello, World!", "tls": "resumed"}
HTTP2 = {**HELLO, "http_version": "2", "streams": 8}


def proved(
    found: Contestant | str, folder: Path, load: Workload, trusted: Pair | None = None
) -> Proof:
    if isinstance(found, str):
        found = contestant.own()[found]
    address = ("127.0.0.1", free_port())
    with start(found, load, Place(folder, address, (CPU,), PAIR)) as server:
        server.wait_ready(address)
        return verify(address, load, found.entry, pair=trusted or PAIR)


def with_flags(name: str, *flags: str) -> Contestant:
    found = contestant.own()[name]
    entry = msgspec.structs.replace(found.entry, command=(*found.entry.command, *flags))
    return msgspec.structs.replace(found, entry=entry)


def server_context(folder: Path) -> ssl.SSLContext:
    PAIR.write(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "certificate.pem.key")
    return context


def respond_three_times(listener: socket.socket, context: ssl.SSLContext) -> None:
    listener.settimeout(10)
    for _ in range(3):
        stream, _ = listener.accept()
        with context.wrap_socket(stream, server_side=True) as client:
            client.recv(4096)
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!")


@pytest.mark.parametrize(
    ("name", "response_bytes"),
    [("bolide-native-tls", 146), ("bolide-asgi-tls", 131), ("ceiling-tls", 146)],
)
def test_http1_and_http2_are_proved(name: str, response_bytes: int, tmp_path: Path) -> None:
    found = proved(name, tmp_path, workload(**HELLO))
    assert found.content == b"Hello, World!"
    assert found.remarks == ("TLSv1.3, TLS_AES_256_GCM_SHA384, http/1.1",)
    assert found.response_bytes == response_bytes
    found = proved(name, tmp_path, workload(**HTTP2))
    assert (found.content, found.response_bytes) == (b"Hello, World!", None)
    assert found.remarks == ("TLSv1.3, TLS_AES_256_GCM_SHA384, h2",)


@pytest.mark.parametrize(("name", "response_bytes"), [("node-tls", 164), ("caddy-tls", 130)])
def test_other_servers_serve_both_and_offer_no_third(
    name: str, response_bytes: int, tmp_path: Path
) -> None:
    """A field Alt-Svc with HTTP/3 would be 35 bytes more."""
    if environments.examine(contestant.own()[name]).state != "ready":
        pytest.skip(f"{name} cannot run here")
    found = proved(name, tmp_path, workload(**HELLO))
    assert (found.content, found.response_bytes) == (b"Hello, World!", response_bytes)
    assert found.remarks[0].endswith(", http/1.1")
    found = proved(name, tmp_path, workload(**HTTP2))
    assert found.content == b"Hello, World!" and found.remarks[0].endswith(", h2")


def test_http2_is_proved_without_tls(tmp_path: Path) -> None:
    plain = {**HTTP2, "tls": ""}
    for found in (contestant.own()["ceiling"], with_flags("bolide-native", "--h2c")):
        assert proved(found, tmp_path, workload(**plain)).content == b"Hello, World!"


@pytest.mark.parametrize("load", [HELLO, HTTP2])
def test_another_certificate_is_detected(load: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(WrongResponseError, match="certificate verify failed") as caught:
        proved("bolide-native-tls", tmp_path, workload(**load), trusted=new_pair())
    assert caught.value.kind == "connection"


def test_another_protocol_is_detected(tmp_path: Path) -> None:
    only_http1 = with_flags("bolide-native-tls", "--alpn", "http/1.1")
    with pytest.raises(WrongResponseError) as caught:
        proved(only_http1, tmp_path, workload(**HTTP2))
    assert caught.value.kind in ("protocol", "connection")  # RFC 7301 3.2: or a fatal alert
    assert proved(only_http1, tmp_path, workload(**HELLO)).content == b"Hello, World!"


def test_a_server_without_alpn_serves_http1(tmp_path: Path) -> None:
    """Its handshake is accepted, and is none for HTTP/2."""
    context = server_context(tmp_path)

    def agreed(version: str) -> str:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            serving = threading.Thread(
                target=lambda: context.wrap_socket(theirs, server_side=True).close()
            )
            serving.start()
            client = Client(PAIR, version)
            try:
                client.connect(ours).close()
            finally:
                serving.join(10)
            return client.agreed

    assert agreed("1.1").endswith(", no protocol by ALPN")
    with pytest.raises(WrongHandshakeError, match="h2 was offered, the server selected None"):
        agreed("2")


def test_resumption_is_proved(tmp_path: Path) -> None:
    load = workload(**HELLO, is_persistent=False)
    assert proved("bolide-native-tls", tmp_path, load).content == b"Hello, World!"
    context = server_context(tmp_path)
    context.num_tickets = 0
    canned = contestant.own()["ceiling-tls"].entry
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = threading.Thread(target=respond_three_times, args=(listener, context))
        serving.start()
        with pytest.raises(WrongResponseError, match="a session of TLS was not resumed") as caught:
            verify(listener.getsockname(), load, canned, pair=PAIR)
        serving.join(10)
    assert caught.value.kind == "handshake"


def test_another_content_or_path_is_detected_over_http2(tmp_path: Path) -> None:
    known = contestant.own()["bolide-native-tls"]
    other = msgspec.structs.replace(known.entry, environment={"RACE_CONTENT": "Hello, World?"})
    with pytest.raises(WrongResponseError, match=r"13 bytes b'Hello, World\?'") as caught:
        proved(msgspec.structs.replace(known, entry=other), tmp_path, workload(**HTTP2))
    assert caught.value.kind == "wrong_body"
    canned = contestant.own()["ceiling-tls"]
    careful = msgspec.structs.replace(canned.entry, is_canned=False)
    with pytest.raises(WrongResponseError, match="200 for an unknown path, not 404"):
        proved(msgspec.structs.replace(canned, entry=careful), tmp_path, workload(**HTTP2))


@pytest.mark.parametrize("app", ["bench.on_asgi_io:file", "bench.on_asgi_io:large"])
def test_a_large_content_is_proved(app: str, tmp_path: Path) -> None:
    load = workload(**HELLO, file_bytes=70_000_000, app=app)
    found = proved("bolide-asgi-file-tls", tmp_path, load)
    assert len(found.content) == 70_000_000


def test_an_upload_is_proved(tmp_path: Path) -> None:
    load = workload(tls="resumed", content="1048576", content_bytes=1 << 20)
    load = msgspec.structs.replace(load, app="bench.on_asgi_io:upload")
    assert proved("bolide-asgi-tls", tmp_path, load).content == b"1048576"


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "10.0.0.5"])
def test_the_certificate_is_for_the_address_that_agents_load(name: str, tmp_path: Path) -> None:
    pair = new_pair("10.0.0.5")
    pair.write(tmp_path)
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(tmp_path / "certificate.pem", tmp_path / "certificate.pem.key")
    trusting = ssl.create_default_context(cadata=pair.certificate.decode())
    sent, received = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(received, sent, server_hostname=name)
    server = served.wrap_bio(sent, received, server_side=True)
    for side in (client, server, client):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    assert client.version() == "TLSv1.3"
