"""The Python servers that Bolide is held against: what each needs, and how it is started best.

The options are those that gave the most requests on one core, of what each one's documents name;
`README.md` says which were tried.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from workloads import CONNECTIONS, Workload

HERE = Path(__file__).resolve().parent
HOST = "127.0.0.1"
BACKLOG = "1024"


@dataclass(frozen=True)
class Peer:
    """What an environment of it holds, and the command that starts it."""

    requirements: tuple[str, ...]
    command: Callable[[Path, Workload, str], list[str]]
    is_busy_when_idle: bool = False


def _granian(programs: Path, workload: Workload, port: str) -> list[str]:
    command = [str(programs / "granian"), "--host", HOST, "--port", port, "--no-log"]
    command += ["--interface", workload.interface, "--loop", "uvloop", "--http", "1", "--no-ws"]
    command += ["--workers", "1", "--runtime-mode", "mt", "--runtime-threads", "1"]
    if workload.interface == "wsgi":
        command += ["--blocking-threads", "1"]
    if workload.depth > 1:
        command.append("--http1-pipeline-flush")
    return [*command, workload.application]


def _uvicorn(programs: Path, workload: Workload, port: str) -> list[str]:
    command = [str(programs / "uvicorn"), workload.application, "--host", HOST, "--port", port]
    command += ["--loop", "uvloop", "--http", "httptools", "--ws", "none", "--backlog", BACKLOG]
    return [*command, "--no-access-log", "--log-level", "warning", "--no-proxy-headers"]


def _gunicorn(programs: Path, workload: Workload, port: str) -> list[str]:
    command = [str(programs / "gunicorn"), "--bind", f"{HOST}:{port}", "--workers", "1"]
    command += ["--http-parser", "fast", "--keep-alive", "75", "--log-level", "warning"]
    if workload.interface == "asgi":
        command += ["--worker-class", "asgi", "--asgi-loop", "uvloop"]
    else:
        command += ["--worker-class", "gthread", "--threads", "4"]
    return [*command, workload.application]


def _uwsgi(programs: Path, workload: Workload, port: str) -> list[str]:
    # A connection that stays open holds a thread, so there are as many of them.
    command = [str(programs / "uwsgi"), "--http11-socket", f"{HOST}:{port}"]
    command += ["--threads", str(CONNECTIONS), "--module", workload.application]
    return [*command, "--disable-logging", "--single-interpreter", "--need-app", "--die-on-term"]


def _bjoern(programs: Path, workload: Workload, port: str) -> list[str]:
    return [str(programs / "python"), str(HERE / "start_bjoern.py"), workload.application, port]


def _fastpysgi(programs: Path, workload: Workload, port: str) -> list[str]:
    start = str(HERE / "start_fastpysgi.py")
    return [str(programs / "python"), start, workload.application, port, workload.interface]


PEERS = {
    "granian": Peer(("granian", "uvloop"), _granian),
    "uvicorn": Peer(("uvicorn", "httptools", "uvloop"), _uvicorn),
    "gunicorn": Peer(("gunicorn", "gunicorn_h1c", "uvloop"), _gunicorn),
    "uwsgi": Peer(("uwsgi",), _uwsgi),
    "bjoern": Peer(("bjoern",), _bjoern),
    "fastpysgi": Peer(("fastpysgi", "uvloop"), _fastpysgi, is_busy_when_idle=True),
}
