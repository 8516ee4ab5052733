"""Runs h2spec, the conformance checks of HTTP/2, against `bolide serve`, without TLS and over it.

`make compat` runs it. Go fetches and builds it at the pinned version, into the user's cache
(`environment.py`). Every check runs, the optional ones of `--strict` too. The exit code is 1 if one
fails that EXPECTED does not name with the reason. Without Go or openssl there is nothing to run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import certificate
import environment

VERSION = "v2.2.1+incompatible"
PACKAGE = "github.com/summerwind/h2spec/cmd/h2spec"
PROGRAM = environment.CACHE / f"h2spec-{VERSION}" / "h2spec"
CHECKS = 146
"""Of this version, with those of `--strict`."""
BUILD_MAX_S, START_MAX_S, RUN_MAX_S = 500, 30, 300

APPLICATION = """
from bolide import App, Request

app = App()


@app.route("/", methods=["GET", "POST"])
def index(request: Request) -> str:
    return "Hello, world!"
"""

EXPECTED: dict[str, dict[str, str]] = {"h2c": {}, "TLS": {}}
"""By transport: the checks that fail, with the reason."""


def main() -> int:
    """Build h2spec, run it over both transports, and print what failed."""
    if lacking := [name for name in ("go", "openssl") if shutil.which(name) is None]:
        print(f"h2spec: left out, for want of {' and '.join(lacking)}")
        return 0
    build()
    folder = environment.CACHE / "h2spec"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "application.py").write_text(APPLICATION)
    tls = certificate.options(folder)
    is_good = run(folder, "h2c", ("--h2c",), ())
    is_good &= run(folder, "TLS", tls, ("--tls", "--insecure"))
    return 0 if is_good else 1


def build() -> None:
    """Fetch and build h2spec, unless it was."""
    with environment.locked(PROGRAM.parent.name):
        if not PROGRAM.exists():
            command = ["go", "install", f"{PACKAGE}@{VERSION}"]
            env = {**os.environ, "GOBIN": str(PROGRAM.parent)}
            subprocess.run(command, check=True, env=env, timeout=BUILD_MAX_S)


def run(folder: Path, transport: str, serve: tuple[str, ...], check: tuple[str, ...]) -> bool:
    """Run all checks over one transport; return whether they came out as expected."""
    report = folder / f"{transport}.xml"
    report.unlink(missing_ok=True)
    with served(folder, transport, serve) as port, (folder / f"{transport}.log").open("w") as log:
        where = ("--host", "127.0.0.1", "--port", str(port), "--timeout", "3")
        command = [PROGRAM, "--strict", *where, *check, "--junit-report", str(report)]
        subprocess.run(command, stdout=log, stderr=log, timeout=RUN_MAX_S)
    if not report.exists():
        sys.exit(f"h2spec: the checks did not run; see {log.name}")
    cases = list(ElementTree.parse(report).iter("testcase"))  # noqa: S314  h2spec wrote it
    failed = [case for case in cases if len(case)]
    print(f"\nh2spec over {transport}, strict: {len(cases) - len(failed)}/{len(cases)} passed")
    unexpected = 0
    for case in failed:
        name = case.get("classname", "")
        reason = EXPECTED[transport].get(name)
        unexpected += reason is None
        place = case.get("package")
        print(f"  failed as expected, {reason}: {name}" if reason else f"  failed: {place}: {name}")
    return not unexpected and len(cases) == CHECKS


@contextmanager
def served(folder: Path, transport: str, options: tuple[str, ...]) -> Iterator[int]:
    """Serve the application while the block runs; give the port."""
    log = folder / f"serve-{transport}.log"
    command = [sys.executable, "-m", "bolide", "serve", "application:app", "--port", "0", *options]
    with log.open("w") as errors:
        process = subprocess.Popen(command, cwd=folder, stderr=errors, stdin=subprocess.DEVNULL)
        try:
            yield port_of(log, process)
        finally:
            process.kill()
            process.wait()


def port_of(log: Path, process: subprocess.Popen[bytes]) -> int:
    """Wait until the server writes where it serves."""
    end = time.monotonic() + START_MAX_S
    while time.monotonic() < end and process.poll() is None:
        _, found, rest = log.read_text().partition("://127.0.0.1:")
        if found and " " in rest:
            return int(rest.split(" ")[0])
        time.sleep(0.05)
    sys.exit(f"h2spec: the server did not start; see {log}")


if __name__ == "__main__":
    sys.exit(main())
