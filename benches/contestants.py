"""The servers: how each is found, started on one core, proved to respond correctly, and ended."""

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

from environments import UnavailableError, environment, frameworks, japronto
from peers import PEERS
from verify import verify
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


@dataclass
class Server:
    """A contestant that runs and responds."""

    process: subprocess.Popen[bytes]
    port: int
    core: int
    log: Path
    is_busy_when_idle: bool
    """It takes processor time from the others while nothing is asked of it."""
    body: bytes = b""


@dataclass(frozen=True)
class Place:
    """What a command may need: a folder of its own, cargo's target, the size of the responses."""

    folder: Path
    target: Path
    size: int


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


def command(name: str, workload: Workload, port: int, place: Place) -> list[str]:
    """Give the command that starts a contestant on a port.

    Raises: UnavailableError.
    """
    if name in PEERS:
        peer = PEERS[name]
        return peer.command(environment(name, peer.requirements), workload, str(port))
    if name == "ceiling":
        ceiling, _ = programs(place.target)
        return [str(ceiling), "--port", str(port), "--size", str(place.size)]
    if name == "nginx":
        nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
        if nginx is None:
            raise UnavailableError("no nginx (`apt-get install nginx-light`)")
        conf = place.folder / "nginx.conf"
        conf.write_text(NGINX_CONF.format(folder=place.folder, port=port))
        return [nginx, "-c", str(conf), "-e", str(place.folder / "error.log")]
    if name == "japronto":
        return [str(japronto()), str(HERE / "japronto_app.py"), str(port)]
    return _bolide(name, workload, port)


def _bolide(name: str, workload: Workload, port: int) -> list[str]:
    bolide = Path(sys.executable).parent / "bolide"
    if not bolide.exists():
        bolide = ROOT / ".venv" / "bin" / "bolide"
    if not bolide.exists():
        raise UnavailableError("no bolide in this environment (`make setup`)")
    result = subprocess.run(
        [str(bolide.with_name("python")), "-c", IS_RELEASE], capture_output=True, check=False
    )
    if result.stdout.strip() != b"True":
        raise UnavailableError("the core was built for tests, which is slower (`make setup`)")
    options = ["--threads", "1"] if workload.interface == "wsgi" else []
    if name == "bolide-uvloop":
        options += ["--loop", "uvloop"]
    return [str(bolide), "serve", workload.application, "--port", str(port), *options]


def variables(workload: Workload, echo_port: int | None) -> dict[str, str]:
    """Give the environment variables of a contestant, with which it finds what it needs.

    Raises: UnavailableError.
    """
    folders = [str(HERE / "applications")]
    if workload.is_framework:
        folders.append(str(frameworks()))
    found = {"PYTHONPATH": os.pathsep.join(folders)}
    if workload.timed_application is not None:
        found["TIMED_APPLICATION"] = workload.timed_application
        found["TIMED_INTERFACE"] = workload.interface
    if echo_port is not None:
        found["ECHO_PORT"] = str(echo_port)
    return os.environ | found


@contextmanager
def running(
    name: str,
    workload: Workload,
    core: int,
    target: Path,
    size: int = 13,
    echo_port: int | None = None,
) -> Iterator[Server]:
    """Run a contestant on one core until the block ends, whatever ends it.

    Raises: UnavailableError: it does not start, or does not respond correctly.
    """
    with tempfile.TemporaryDirectory(prefix="bolide-bench-") as name_of_folder:
        folder = Path(name_of_folder)
        folder.chmod(0o755)
        port = _free_port()
        log = folder / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                pinned(core, command(name, workload, port, Place(folder, target, size))),
                cwd=ROOT,
                env=variables(workload, echo_port),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        server = Server(process, port, core, log, name in PEERS and PEERS[name].is_busy_when_idle)
        try:
            _wait_until_ready(server)
            server.body = verify(server.port, workload)
            yield server
        finally:
            _end(process)


@contextmanager
def resumed(server: Server) -> Iterator[None]:
    """Resume a server that is busy when idle, and is therefore stopped, until the block ends."""
    if not server.is_busy_when_idle:
        yield
        return
    os.killpg(server.process.pid, signal.SIGCONT)
    try:
        yield
    finally:
        os.killpg(server.process.pid, signal.SIGSTOP)


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
            os.killpg(process.pid, signal.SIGCONT)
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
