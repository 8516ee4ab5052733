"""Runs the ASGI checks of gunicorn's source distribution against `bolide serve`.

They are somebody else's: fetched from the package registry, unpacked into the user's cache
(`environment.py`), and run there unchanged, with the frameworks that they name in a virtual
environment of their own. `plugin.py` gives them the servers' addresses. Arguments go to
`bolide serve`: `make compat SERVE="--loop uvloop"`. The exit code is 1 if a check failed or
nothing could be run.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import certificate
import environment

HERE = Path(__file__).parent
PACKAGE, CACHE = environment.PACKAGE, environment.CACHE
READY = re.compile(rb"serving \S+ on https?://127\.0\.0\.1:(\d+)")
START_MAX_S, STOP_MAX_S, CHECKS_MAX_S = 30, 30, 900

FRAMEWORKS = ("django", "fastapi", "starlette", "quart", "litestar", "blacksheep")
REQUIREMENTS = [
    *("Django>=5.2,<6", "channels>=4", "fastapi>=0.120", "starlette>=0.50", "quart>=0.20"),
    *("litestar>=2.20,<3", "blacksheep>=2.4,<3", "uvloop>=0.21", "click>=8.1,<9", "msgspec>=0.19"),
    *("pytest>=9,<10", "pytest-asyncio>=1,<2", "httpx[http2]>=0.28,<1", "websockets>=15"),
]
PYTHON = environment.interpreter("checks", REQUIREMENTS)
NEEDS = {
    "nginx_url": "a proxy in front",
}
"""A fixture of the checks, and what this server or script does not have and it needs."""


@dataclass(frozen=True)
class Suite:
    """A folder of checks, and the applications that they want to be served."""

    name: str
    folder: str
    """Below tests/docker of the distribution."""
    checks: str
    """The folder with the checks, below that one."""
    servers: dict[str, tuple[str, str]]
    """By name: the folder to serve from, below that one, and the target."""


SUITES = [
    Suite(
        "ASGI compliance",
        "asgi_compliance",
        ".",
        # What they check of HTTP/2 through nginx is checked of the server itself.
        {
            name: (".", "apps.main_app:app")
            for name in ("gunicorn_http", "gunicorn_https", "nginx_https")
        },
    ),
    Suite(
        "six frameworks",
        "asgi_framework_compat",
        "tests",
        {
            name: (f"frameworks/{name}_app", "asgi:application" if name == "django" else "app:app")
            for name in FRAMEWORKS
        },
    ),
]


def main() -> int:
    """Run every suite and print its figures."""
    begun = time.monotonic()
    environment.make("checks", REQUIREMENTS)
    source = distribution()
    print(f"checks of {source.name}, with {versions()}", flush=True)
    is_good = [run(suite, source / "tests" / "docker" / suite.folder) for suite in SUITES]
    print(f"\ntook {time.monotonic() - begun:.0f} s")
    return 0 if all(is_good) else 1


def distribution() -> Path:
    """Fetch and unpack gunicorn's newest source distribution; the last one if there is no way."""
    try:
        options = ("--no-deps", "--no-binary", ":all:", "--dest", str(CACHE))
        environment.pip(PYTHON, "download", *options, "gunicorn")
    except subprocess.CalledProcessError:
        print("compat: the registry does not respond; using what was fetched before")
    archives = sorted(CACHE.glob("gunicorn-*.tar.gz"), key=lambda path: path.stat().st_mtime)
    if not archives:
        sys.exit("compat: gunicorn's source distribution could not be fetched")
    return environment.unpack(archives[-1])


def versions() -> str:
    """Name the frameworks with their versions."""
    code = (
        "import sys; from importlib.metadata import metadata; found = map(metadata, sys.argv[1:]); "
        "print(*(each['Name'] + ' ' + each['Version'] for each in found), sep=', ')"
    )
    command = [PYTHON, "-c", code, *FRAMEWORKS]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def run(suite: Suite, folder: Path) -> bool:
    """Serve the suite's applications and run its checks; return whether none failed."""
    result = CACHE / f"{suite.folder}.json"
    result.unlink(missing_ok=True)
    with ExitStack() as stack, (CACHE / f"{suite.folder}.log").open("w") as log:
        ports = {
            name: stack.enter_context(served(folder / place, target, *tls_options(name)))
            for name, (place, target) in suite.servers.items()
        }
        plan = {"ports": ports, "needs": NEEDS, "result": str(result)}
        options = ["-p", "plugin", "-o", "asyncio_mode=auto", "-o", "addopts=", "--rootdir", "."]
        subprocess.run(
            [PYTHON, "-m", "pytest", *options, suite.checks],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(HERE), "COMPAT_PLAN": json.dumps(plan)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            timeout=CHECKS_MAX_S,
        )
    if not result.exists():
        sys.exit(f"compat: the checks of {suite.name} did not run; see {log.name}")
    return report(suite, json.loads(result.read_text()))


def tls_options(name: str) -> tuple[str, ...]:
    """Return what makes the server with that name speak TLS, if it should."""
    return certificate.options(CACHE) if name.endswith("_https") else ()


@contextmanager
def served(folder: Path, target: str, *options: str) -> Iterator[int]:
    """Serve an application while the block runs; give the port."""
    transport = "-tls" if options else ""
    with (CACHE / f"{folder.parent.name}-{folder.name}{transport}.log").open("wb") as log:
        process = subprocess.Popen(
            [PYTHON, "-m", "bolide", "serve", target, "--port", "0", *options, *sys.argv[1:]],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(PACKAGE)},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        try:
            yield port_of(process, log)
        finally:
            process.terminate()
            try:
                process.wait(STOP_MAX_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def port_of(process: subprocess.Popen[bytes], log: BinaryIO) -> int:
    """Wait until a server says where it serves; the rest of what it says goes to the log."""
    assert process.stderr is not None
    impatience = threading.Timer(START_MAX_S, process.kill)
    impatience.start()
    try:
        for line in process.stderr:
            log.write(line)
            if match := READY.search(line):
                ends = process.stderr, log
                threading.Thread(target=shutil.copyfileobj, args=ends, daemon=True).start()
                return int(match[1])
    finally:
        impatience.cancel()
    sys.exit(f"compat: a server did not start; see {log.name}")


def report(suite: Suite, result: dict[str, Any]) -> bool:
    """Print the figures of a suite; return whether nothing failed."""
    outcomes = result["outcomes"]
    counts = Counter(each["outcome"] for each in outcomes.values())
    judged = counts["passed"] + counts["failed"]
    print(f"\n{suite.name}: {counts['passed']}/{judged} passed in {result['seconds']:.0f} s")
    for need, count in sorted(result["left_out"].items()):
        print(f"  {count} left out, for want of {need}")
    skipped = Counter(each["reason"] for each in outcomes.values() if each["outcome"] == "skipped")
    for reason, count in skipped.items():
        print(f"  {count} skipped by themselves: {reason}")
    for name, each in outcomes.items():
        if each["outcome"] == "failed":
            print(f"  failed: {name}: {each['reason']}")
    return judged > 0 and not counts["failed"]


if __name__ == "__main__":
    sys.exit(main())
