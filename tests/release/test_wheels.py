"""Installs wheels into empty environments, and uses them as somebody does who has nothing else.

BOLIDE_WHEELS names a folder of wheels, as `make wheels` writes it: each is tested for which an
interpreter is here, and the others fail with BOLIDE_WHEELS_MUST_RUN. Without it, one is built for
the interpreter of the tests. BOLIDE_SDIST names a source distribution, which is built in an empty
folder. BOLIDE_LAB_WHEEL names the wheel of bolide-lab, which is installed with that of Bolide for
this interpreter, from the same folder.
"""

from __future__ import annotations

import http.client
import json
import os
import platform
import re
import select
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).parents[2]
WHEELS = os.environ.get("BOLIDE_WHEELS")
MUST_RUN = "BOLIDE_WHEELS_MUST_RUN" in os.environ
SDIST = os.environ.get("BOLIDE_SDIST")
LAB_WHEEL = os.environ.get("BOLIDE_LAB_WHEEL")
SUFFIX = "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))"
SERVING = re.compile(r"serving \S+ on (https?://\S+) ")
START_S_MAX = 20
APPLICATIONS = {
    "native": """
from bolide import App
app = App()
@app.get("/")
async def index(request):
    return "Hello"
""",
    "asgi": """
async def app(scope, receive, send):
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})
        return
    assert scope["type"] == "http"
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"5")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"Hello"})
""",
    "wsgi": """
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "5")])
    return [b"Hello"]
""",
}

GET_OVER_HTTP2 = b"".join(
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\0\0\0" + b"\x04\0" + b"\0\0\0\0",  # SETTINGS without any
        # HEADERS of stream 1 with END_STREAM and END_HEADERS: GET, https, / and :authority
        b"\0\0\x0e" + b"\x01\x05" + b"\0\0\0\x01" + b"\x82\x87\x84\x41\x09localhost",
    ]
)
STATUS_200 = b"\x88"  # RFC 7541 appendix A
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
ACCEPTED = b"sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="  # RFC 6455 section 1.3
MASKED_HELLO = b"\x81\x85\0\0\0\0Hello"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def empty_environ() -> dict[str, str]:
    """Return the variables without what steers Python or Bolide, and without the checkout's."""
    own = ("BOLIDE_", "PYTHON", "VIRTUAL_ENV", "PYO3_")
    return {name: value for name, value in os.environ.items() if not name.startswith(own)}


def interpreter(version: str) -> str | None:
    """Find CPython of a version like 3.12: this one, on the PATH, or pyenv's."""
    if version == f"3.{sys.version_info.minor}":
        return sys.executable
    candidates = [shutil.which(f"python{version}")]
    if pyenv := shutil.which("pyenv"):
        root = subprocess.run([pyenv, "root"], capture_output=True, text=True, check=True)
        found = Path(root.stdout.strip(), "versions").glob(f"{version}.*/bin/python{version}")
        candidates += sorted(map(str, found))
    for each in filter(None, candidates):
        if subprocess.run([each, "-c", ""], capture_output=True).returncode == 0:
            return each
    return None


def leave_out(reason: str) -> NoReturn:
    """Skip the test of a wheel that cannot run here, or fail if it must."""
    if MUST_RUN:
        pytest.fail(reason)
    pytest.skip(reason)


def runnable(wheel: Path) -> str:
    """Return the interpreter that a wheel is for, or skip the test."""
    version = re.sub(r".*-cp3(\d+)-.*", r"3.\1", wheel.name)
    python = interpreter(version)
    if python is None:
        leave_out(f"no Python {version} on this machine")
    ends = subprocess.run([python, "-c", SUFFIX], capture_output=True, text=True, check=True)
    names = subprocess.run(
        [sys.executable, "-m", "zipfile", "-l", wheel], capture_output=True, text=True, check=True
    )
    if f"bolide/_core{ends.stdout.strip()}" not in names.stdout:
        leave_out(f"Python {version} here is for another kind of machine")
    return python


def install(python: str, thing: Path | str, folder: Path, *options: str) -> Path:
    """Install a wheel or a source distribution into an empty environment; return its programs."""
    environ = empty_environ()
    subprocess.run([python, "-m", "venv", folder], check=True, env=environ)
    words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", thing]
    subprocess.run([folder / "bin/python", *words, *options], check=True, env=environ, cwd=folder)
    return folder / "bin"


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a wheel for this interpreter, in the profile whose parts are there already."""
    out = tmp_path_factory.mktemp("wheel")
    words = ["build", "--quiet", "--profile", "dev", "--compatibility", "linux", "--out", out]
    command = [sys.executable, "-m", "maturin", *words, "--interpreter", sys.executable]
    subprocess.run(command, cwd=ROOT, check=True)
    (wheel,) = out.glob("*.whl")
    return wheel


@pytest.fixture(
    scope="module",
    params=sorted(Path(WHEELS).resolve().glob("bolide-*.whl")) if WHEELS else [None],
    ids=lambda path: path.name.split("-", 2)[2].removesuffix(".whl") if path else "built",
)
def programs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """Return the folder of programs of an environment in which only a wheel was installed."""
    wheel = request.param or request.getfixturevalue("built")
    python = runnable(wheel)
    yield install(python, wheel, tmp_path_factory.mktemp("environment"))


def ran(programs: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the installed command outside of any checkout."""
    return subprocess.run(
        [programs / "bolide", *words],
        cwd=programs,
        env=empty_environ(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def serve(programs: Path, application: Path, *options: str) -> tuple[subprocess.Popen[bytes], str]:
    """Start the installed server; return the process and its address."""
    process = subprocess.Popen(
        [programs / "bolide", "serve", application, "--port", "0", "--workers", "2", *options],
        cwd=application.parent,
        env=empty_environ(),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        bufsize=0,
    )
    assert process.stderr is not None
    written, until = b"", time.monotonic() + START_S_MAX
    while not (match := SERVING.search(written.decode())):
        ready, _, _ = select.select([process.stderr], [], [], max(0, until - time.monotonic()))
        part = process.stderr.read(4096) if ready else b""
        if not part:
            process.kill()
            pytest.fail(f"does not serve: {written.decode()}")
        written += part
    return process, match[1]


def unverified(*protocols: str) -> ssl.SSLContext:
    """Return a client's context that accepts a self-signed certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(list(protocols))
    return context


def get(url: str) -> tuple[int, bytes]:
    """Request the root of a server over HTTP/1.1; return status and content."""
    scheme, _, host = url.partition("://")
    if scheme == "https":
        connection = http.client.HTTPSConnection(host, timeout=10, context=unverified("http/1.1"))
    else:
        connection = http.client.HTTPConnection(host, timeout=10)
    try:
        connection.request("GET", "/")
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def get_over_http2(url: str) -> tuple[bytes, bytes]:
    """Request the root of a server over HTTP/2; return the first field line, and the content."""
    host, _, port = url.removeprefix("https://").rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=10) as plain,
        unverified("h2").wrap_socket(plain, server_hostname="localhost") as peer,
        peer.makefile("rb") as stream,
    ):
        assert peer.selected_alpn_protocol() == "h2"
        peer.sendall(GET_OVER_HTTP2)
        field, content = b"", b""
        while True:
            head = stream.read(9)
            payload = stream.read(int.from_bytes(head[:3]))
            if head[3:4] == b"\x01":
                field = payload[:1]
            if head[3:4] == b"\0":
                content += payload
            if head[3:4] in b"\0\x01" and head[4] & 1:
                return field, content


@pytest.mark.parametrize("interface", APPLICATIONS)
def test_serves_every_interface_and_loads_it(
    programs: Path, interface: str, tmp_path: Path
) -> None:
    application = tmp_path / f"{interface}.py"
    application.write_text(APPLICATIONS[interface])
    process, url = serve(programs, application)
    try:
        assert get(url) == (200, b"Hello")
        load = ran(
            programs, "load", url, "-n", "500", "-c", "4", "--expect-body", "Hello", "--json"
        )
        assert load.returncode == 0, load.stderr
        report = json.loads(load.stdout)
        assert (report["ok"], report["failed"], report["statuses"]) == (500, 0, {"200": 500})
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()
        process.communicate(timeout=20)


def test_serves_over_tls_and_http2_and_loads_both(programs: Path, tmp_path: Path) -> None:
    application = tmp_path / "asgi.py"
    application.write_text(APPLICATIONS["asgi"])
    process, url = serve(programs, application, "--certificate", "self-signed")
    try:
        assert get(url) == (200, b"Hello")
        assert get_over_http2(url) == (STATUS_200, b"Hello")
        for options in ([], ["--http2", "--streams", "8"]):
            words = ["-n", "500", "-c", "4", "--expect-body", "Hello", "--insecure", "--json"]
            load = ran(programs, "load", url, *words, *options)
            assert load.returncode == 0, load.stderr
            report = json.loads(load.stdout)
            assert (report["ok"], report["failed"], report["statuses"]) == (500, 0, {"200": 500})
    finally:
        process.kill()
        process.communicate(timeout=20)


def test_serves_a_websocket(programs: Path, tmp_path: Path) -> None:
    application = tmp_path / "asgi.py"
    application.write_text(APPLICATIONS["asgi"])
    process, url = serve(programs, application)
    host, _, port = url.removeprefix("http://").rpartition(":")
    try:
        with (
            socket.create_connection((host, int(port)), timeout=10) as peer,
            peer.makefile("rb") as stream,
        ):
            peer.sendall(UPGRADE)
            assert stream.readline() == b"HTTP/1.1 101 Switching Protocols\r\n"
            fields = [line.strip().lower() for line in iter(stream.readline, b"\r\n")]
            assert ACCEPTED in fields
            peer.sendall(MASKED_HELLO)
            assert stream.read(7) == b"\x81\x05Hello"
    finally:
        process.kill()
        process.communicate(timeout=20)


def test_names_its_version_and_needs_nothing_else(programs: Path) -> None:
    version = re.search(r'^version = "(.+)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    assert version is not None
    assert ran(programs, "--version").stdout == f"bolide {version[1]}\n"
    checked = subprocess.run(
        [programs / "python", "-m", "pip", "check"], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout


def test_a_race_without_the_extra_names_what_to_install(programs: Path) -> None:
    race = ran(programs, "race", "pipelining")
    assert (race.returncode, race.stdout) == (2, "")
    assert race.stderr == "bolide: error: rich is missing; pip install 'bolide[lab]'\n"


def test_a_wheel_has_no_source_of_a_contestant(programs: Path) -> None:
    code = "import bolide, pathlib; print(pathlib.Path(bolide.__file__).parent)"
    shown = subprocess.run(
        [programs / "python", "-c", code], capture_output=True, text=True, check=True, cwd=programs
    )
    files = [path for path in Path(shown.stdout.strip()).rglob("*") if path.is_file()]
    suffixes = (".go", ".mod", ".sum", ".php", ".rs", ".lock")
    assert [path.name for path in files if path.name.endswith((*suffixes, "_http.js"))] == []
    assert not list(Path(shown.stdout.strip()).parent.glob("bolide_lab*"))


@pytest.mark.skipif(not LAB_WHEEL, reason="BOLIDE_LAB_WHEEL names no wheel of bolide-lab")
def test_the_wheel_of_the_laboratory_is_what_the_extra_installs(tmp_path: Path) -> None:
    wheel = Path(LAB_WHEEL or "").resolve()
    of_this = f"bolide-*-cp3{sys.version_info.minor}-manylinux*_{platform.machine()}.whl"
    [bolide] = wheel.parent.glob(of_this)
    options = (f"--constraint={tmp_path / 'constraint'}",)
    (tmp_path / "constraint").write_text(f"bolide-lab @ {wheel.as_uri()}\n")
    programs = install(sys.executable, f"{bolide}[lab]", tmp_path / "environment", *options)
    listed = ran(programs, "race", "list", "--json")
    assert (listed.returncode, listed.stderr) == (0, "")
    names = {json.loads(line).get("name") for line in listed.stdout.splitlines()}
    assert names >= {"bolide-native", "hyper-tls", "go-tls"}
    site = next((programs.parent / "lib").glob("python3*/site-packages"))
    assert (site / "bolide_lab/apps/rust_hyper/src/main.rs").is_file()


@pytest.mark.skipif(not SDIST, reason="BOLIDE_SDIST names no source distribution")
def test_the_source_distribution_builds_from_its_own_files(tmp_path: Path) -> None:
    """Pip unpacks it into an empty folder, and built in an environment of its own."""
    programs = install(sys.executable, Path(SDIST or "").resolve(), tmp_path / "environment")
    application = tmp_path / "native.py"
    application.write_text(APPLICATIONS["native"])
    process, url = serve(programs, application)
    try:
        assert get(url) == (200, b"Hello")
    finally:
        process.kill()
        process.communicate(timeout=20)
