"""The servers: how each is found, started on one core, proved to answer right, and ended."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from workloads import Workload

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
READY_SECONDS_MAX = 20.0

NGINX_CONF = """\
worker_processes 1; daemon off; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 12000; }}
http {{
  access_log off; keepalive_timeout 600; keepalive_requests 1000000000;
  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{ default_type text/plain; return 200 "Hello, World!"; }}
  }}
}}
"""


IS_RELEASE = "from bolide import _core; print(_core.is_release_build)"


class UnavailableError(Exception):
    """A contestant cannot run here; the text says why."""


@dataclass
class Server:
    """A contestant that runs and answers."""

    process: subprocess.Popen[bytes]
    port: int
    core: int
    log: Path
    body: bytes = b""


def programs(target: Path) -> tuple[Path, Path]:
    """Give the paths of the ceiling and of the generator in a cargo target folder."""
    return target / "release" / "bolide-ceiling", target / "release" / "bolide-load"


def pinned(core: int, command: list[str]) -> list[str]:
    """Give the command that runs another one, and all that it starts, on one core.

    Raises: UnavailableError.
    """
    taskset = shutil.which("taskset")
    if taskset is None:
        raise UnavailableError("no taskset (`apt-get install util-linux`)")
    return [taskset, "-c", str(core), *command]


def japronto_python() -> Path:
    """Give an interpreter that has Japronto, made with CPython 3.7 when it is not there yet.

    Raises: UnavailableError.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "bolide" / "japronto"
    python = folder / "bin" / "python"
    if python.exists() and _succeeds([str(python), "-c", "import japronto"]):
        return python
    base = _python37()
    print("making an environment for Japronto ...", file=sys.stderr)
    steps = (
        [base, "-m", "venv", "--clear", str(folder)],
        [str(python), "-m", "pip", "install", "--quiet", "japronto==0.1.2"],
    )
    for step in steps:
        if not _succeeds(step):
            raise UnavailableError(f"`{' '.join(step)}` failed")
    return python


def _python37() -> str:
    pyenv = shutil.which("pyenv")
    if pyenv:
        listed = subprocess.run(
            [pyenv, "versions", "--bare"], capture_output=True, text=True, check=False
        )
        for version in listed.stdout.split():
            if version.startswith("3.7."):
                prefix = subprocess.run(
                    [pyenv, "prefix", version], capture_output=True, text=True, check=False
                )
                found = Path(prefix.stdout.strip()) / "bin" / "python3.7"
                if found.exists():
                    return str(found)
    found_on_path = shutil.which("python3.7")
    if found_on_path and _succeeds([found_on_path, "--version"]):
        return found_on_path
    raise UnavailableError("no CPython 3.7 (`pyenv install 3.7`)")


def _succeeds(command: list[str]) -> bool:
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    return done.returncode == 0


def command(name: str, port: int, folder: Path, target: Path, size: int) -> list[str]:
    """Give the command that starts a contestant on a port.

    Raises: UnavailableError.
    """
    if name == "ceiling":
        ceiling, _ = programs(target)
        return [str(ceiling), "--port", str(port), "--size", str(size)]
    if name == "nginx":
        nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
        if nginx is None:
            raise UnavailableError("no nginx (`apt-get install nginx-light`)")
        conf = folder / "nginx.conf"
        conf.write_text(NGINX_CONF.format(folder=folder, port=port))
        return [nginx, "-c", str(conf), "-e", str(folder / "error.log")]
    if name == "japronto":
        return [str(japronto_python()), str(HERE / "japronto_app.py"), str(port)]
    bolide = Path(sys.executable).parent / "bolide"
    if not bolide.exists():
        bolide = ROOT / ".venv" / "bin" / "bolide"
    if not bolide.exists():
        raise UnavailableError("no bolide in this environment (`make setup`)")
    told = subprocess.run(
        [str(bolide.with_name("python")), "-c", IS_RELEASE], capture_output=True, check=False
    )
    if told.stdout.strip() != b"True":
        raise UnavailableError("the core was built for tests, which is slower (`make setup`)")
    return [str(bolide), "serve", "benches/app.py:app", "--port", str(port)]


@contextmanager
def running(
    name: str, workload: Workload, core: int, target: Path, size: int = 13
) -> Iterator[Server]:
    """Run a contestant on one core until the block ends, whatever ends it.

    Raises: UnavailableError: it does not start, or does not answer right.
    """
    with tempfile.TemporaryDirectory(prefix="bolide-bench-") as name_of_folder:
        folder = Path(name_of_folder)
        folder.chmod(0o755)
        port = _free_port()
        log = folder / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                pinned(core, command(name, port, folder, target, size)),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        server = Server(process, port, core, log)
        try:
            _wait_until_ready(server)
            server.body = verify(server.port, workload)
            yield server
        finally:
            _end(process)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_ready(server: Server) -> None:
    give_up = time.monotonic() + READY_SECONDS_MAX
    while time.monotonic() < give_up:
        if server.process.poll() is not None:
            break
        try:
            with socket.create_connection(("127.0.0.1", server.port), timeout=1.0):
                return
        except OSError:
            time.sleep(0.02)
    lines = server.log.read_text(errors="replace").strip().splitlines()
    raise UnavailableError("did not start: " + " / ".join(lines[-3:]))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the session that the process leads."""
    for number, patience in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        give_up = time.monotonic() + patience
        while time.monotonic() < give_up:
            process.poll()
            try:
                os.killpg(process.pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.02)
    process.wait()


def request_bytes(port: int, workload: Workload) -> bytes:
    """Give the request that the generator sends."""
    lines = [f"GET {workload.target} HTTP/1.1", f"Host: 127.0.0.1:{port}"]
    lines += [f"{name}: {value}" for name, value in workload.fields]
    if not workload.persistent:
        lines.append("Connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def verify(port: int, workload: Workload) -> bytes:
    """Prove that a server answers a workload's request right, and give the content.

    One request, then three in one send where connections persist; each answer must have status
    200, the same content, and nothing behind the last.

    Raises: UnavailableError.
    """
    request = request_bytes(port, workload)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5.0) as stream:
            reader = stream.makefile("rb")
            stream.sendall(request)
            body = _read_answer(reader)
            if workload.persistent:
                stream.sendall(request * 3)
                if [_read_answer(reader) for _ in range(3)] != [body] * 3:
                    raise UnavailableError("pipelined answers differ from a single one")
                stream.shutdown(socket.SHUT_WR)
            if reader.read() != b"":
                raise UnavailableError("bytes behind the last answer")
    except OSError as error:
        raise UnavailableError(f"verification failed: {error}") from error
    return body


def _read_answer(reader: BinaryIO) -> bytes:
    status = reader.readline()
    if status.split()[1:2] != [b"200"]:
        raise UnavailableError(f"answered {status!r}")
    length = None
    while (line := reader.readline()) not in (b"\r\n", b""):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    if length is None:
        raise UnavailableError("an answer without Content-Length")
    return reader.read(length)
