"""The configurations of docs/guide/load-balancers.md, with the proxies that they are for."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import support.nginx
from docs.page import File, steps
from proxies.conftest import ON_INTERFACES, Serve, asked
from support.client import Connection
from support.server import Server
from support.waiting import wait_until
from support.websocket import WebSocket, handshake
from support.websocket_carriers import SECURE, secured

pytestmark = pytest.mark.tools

PAGE = Path(__file__).parents[2] / "docs/guide/load-balancers.md"
GUIDE = Path(__file__).parents[2] / "docs/guide/websocket.md"
OWN = f"127.{os.getpid() // 250 % 250 + 1}.{os.getpid() % 250}"
"""The start of addresses that no other process uses."""
PROXY = (f"{OWN}.1", 8080)
PASSED_ON = (f"{OWN}.1", 8443)
CLIENT = f"{OWN}.7"
TRUSTED = ("--trusted-proxies", "127.0.0.1")
"""The address from which the proxies connect."""
SPOOFED = ("X-Forwarded-For: 127.0.0.1, 198.51.100.9", "Forwarded: for=198.51.100.9;proto=https")
"""What a client sends that poses as a proxy."""


def configuration(name: str, listening: str, server: Server) -> str:
    """Return a configuration of the page for this server, with another address to listen on.

    `listening` is what precedes the port there.
    """
    files = {step.name: step.content for step in steps(PAGE) if isinstance(step, File)}
    text = files[name]
    address = server.address
    assert not isinstance(address, str)
    for port in ("8000", "8001"):
        text = text.replace(f"127.0.0.1:{port}", f"{address[0]}:{address[1]}")
    assert f"{listening}8080" in text
    for host, port in (PROXY, PASSED_ON):
        text = text.replace(f"{listening}{port}", f"{listening.rstrip(':')}{host}:{port}")
    return text


@contextmanager
def running(*command: str, env: dict[str, str] | None = None) -> Iterator[None]:
    """Run a proxy until it listens."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"needs {command[0]}")
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, **(env or {})},
        text=True,
    ) as process:
        try:
            wait_until(lambda: is_open() or process.poll() is not None)
            assert process.poll() is None, process.stderr and process.stderr.read()
            yield
        finally:
            process.terminate()
            process.communicate(timeout=10)


def is_open(address: tuple[str, int] = PROXY) -> bool:
    """Return whether a proxy listens."""
    try:
        Connection(address).socket.close()
    except OSError:
        return False
    return True


@contextmanager
def nginx(folder: Path, server: Server) -> Iterator[None]:
    """Run nginx."""
    site = configuration("/etc/nginx/conf.d/app.conf", "listen ", server)
    (folder / "app.conf").write_text(site)
    if shutil.which("nginx") is None:
        pytest.skip("needs nginx")
    with support.nginx.nginx(folder, folder / "app.conf"):
        yield


@contextmanager
def haproxy(folder: Path, server: Server) -> Iterator[None]:
    """Run HAProxy."""
    main = folder / "haproxy.cfg"
    main.write_text(configuration("/etc/haproxy/haproxy.cfg", "bind :", server))
    with running("haproxy", "-db", "-f", str(main)):
        wait_until(lambda: is_open(PASSED_ON))  # it listens to one after the other
        yield


@contextmanager
def caddy(folder: Path, server: Server) -> Iterator[None]:
    """Run Caddy, without its interface for administration."""
    site = configuration("/etc/caddy/Caddyfile", ":", server)
    site = site.replace(f"{PROXY[0]}:8080 {{", f":8080 {{\n\tbind {PROXY[0]}")
    main = folder / "Caddyfile"
    main.write_text(f"{{\n\tadmin off\n}}\n{site}")
    home = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    command = ("caddy", "run", "--config", str(main), "--adapter", "caddyfile")
    with running(*command, env=home):
        yield


PROXIES = {"nginx": nginx, "haproxy": haproxy, "caddy": caddy}


@pytest.mark.parametrize("proxy", PROXIES)
@pytest.mark.parametrize("name", ON_INTERFACES)
def test_a_proxy_says_who_the_client_is(
    serve: Serve, tmp_path: Path, proxy: str, name: str
) -> None:
    server = serve(name, *TRUSTED)
    with PROXIES[proxy](tmp_path, server), Connection(PROXY, source=CLIENT) as client:
        for fields in ((), SPOOFED, ("X-Forwarded-Proto: https", "X_Forwarded_For: 1.2.3.4")):
            seen = asked(client, *fields)
            assert seen["client"] == [CLIENT, 0], fields
            assert (seen["scheme"], seen["host"]) == ("http", "test")


@pytest.mark.parametrize("proxy", PROXIES)
def test_a_websocket_passes(serve: Serve, tmp_path: Path, proxy: str) -> None:
    server = serve("on_asgi", *TRUSTED)
    with PROXIES[proxy](tmp_path, server), WebSocket(PROXY, source=CLIENT) as client:
        client.open("/a", *SPOOFED)
        seen = json.loads(client.frame().content)
        assert (seen["client"], seen["scheme"]) == ([CLIENT, 0], "ws")


@pytest.mark.skipif(shutil.which("nginx") is None, reason="needs nginx")
def test_the_guide_to_websocket_lets_own_origins_through_nginx(
    serve: Serve, tmp_path: Path
) -> None:
    server = serve("on_asgi", *TRUSTED, "--websocket-origins", "same")
    assert not isinstance(server.address, str)
    location = GUIDE.read_text().partition("```nginx\n")[2].partition("```")[0]
    at = "{}:{}".format(*server.address)
    assert "127.0.0.1:8000" in location
    listening = "{}:{}".format(*PROXY)
    site = tmp_path / "app.conf"
    site.write_text(f"server {{ listen {listening}; {location.replace('127.0.0.1:8000', at)} }}")
    with support.nginx.nginx(tmp_path, site), WebSocket(PROXY, source=CLIENT) as client:
        lines = handshake("/a", f"Origin: http://{listening}")
        client.send(lines.replace(b"Host: test", f"Host: {listening}".encode()))
        client.read_opening()
        seen = json.loads(client.frame().content)
        assert (seen["client"], seen["scheme"]) == ([CLIENT, 0], "ws")


def test_haproxy_sends_the_proxy_protocol(serve: Serve, tmp_path: Path) -> None:
    server = serve("on_native", *TRUSTED, "--proxy-protocol", *SECURE)
    with haproxy(tmp_path, server), Connection(PASSED_ON, source=CLIENT) as client:
        own = list(client.socket.getsockname())
        secured(client)
        seen = asked(client, *SPOOFED)
        assert (seen["client"], seen["scheme"]) == (own, "https")
