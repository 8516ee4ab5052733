"""Serves whole applications by Bolide and by another server, and compares what clients see.

`make applications` runs it. Each on_NAME.py beside this file is an application (`app`, and `wsgi`
if it has that too) with a function `observe(url)` that uses it and gives what it saw. Both run in a
virtual environment of their own in the user's cache (`environment.py`), for what they require is
large. A browser is used where Chromium is installed. Names as arguments choose some; the exit code
is 1 if anything differs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import environment  # noqa: E402

REQUIREMENTS = [
    *("brotli-asgi", "datasette<1", "Django>=5.2,<6", "fastapi", "fastmcp", "gradio", "gunicorn"),
    *("httpx", "litestar>=2,<3", "quart", "sse-starlette", "starlette", "uvicorn", "uvloop"),
    *("click>=8.1,<9", "msgspec>=0.19"),
]
OURS = ("click>=8.1,<9", "msgspec>=0.19")
APART = {
    "on_mlflow": ["mlflow", "httpx", "uvicorn", "uvloop", *OURS],
    "on_nicegui": ["nicegui", "httpx", "websockets", "uvicorn", "uvloop", *OURS],
}
"""Applications whose requirements are kept apart from the others'."""
READY = re.compile(rb"(?:on|at:) http://127\.0\.0\.1:(\d+)")
START_MAX_S, STOP_MAX_S, OBSERVE_MAX_S = 90, 30, 180
SERVERS = {
    "bolide": "bolide serve {} --port 0 --host 127.0.0.1",
    "bolide, uvloop": "bolide serve {} --port 0 --host 127.0.0.1 --loop uvloop",
    "uvicorn": "uvicorn {} --port 0 --host 127.0.0.1",
}
WSGI_SERVERS = {
    "bolide": "bolide serve {} --port 0 --host 127.0.0.1 --interface wsgi",
    "gunicorn": "gunicorn {} --bind 127.0.0.1:0 --worker-class gthread --threads 4",
}


def main() -> int:
    """Run the applications that are named, or all, and say what differs."""
    names = sys.argv[1:] or sorted(path.stem for path in HERE.glob("on_*.py"))
    is_good = True
    for name in names:
        apart = APART.get(name)
        place = name if apart else "applications"
        python = environment.make(place, apart or REQUIREMENTS)
        is_good &= compare(python, name, "app", SERVERS)
        if "\nwsgi = " in (HERE / f"{name}.py").read_text():
            is_good &= compare(python, name, "wsgi", WSGI_SERVERS)
    return 0 if is_good else 1


def compare(python: Path, name: str, attribute: str, servers: dict[str, str]) -> bool:
    """Print what one of the servers shows otherwise; the last one is the measure."""
    seen: dict[str, dict[str, Any]] = {}
    for server, command in servers.items():
        words = command.format(f"{name}:{attribute}").split()
        with served(python, words, f"{name}-{attribute}-{server}") as port:
            seen[server] = observed(python, name, f"http://127.0.0.1:{port}")
    *ours, (other, expected) = seen.items()
    untrue = [key for key, value in expected.items() if value is False]
    print(*(f"{name}: {other}: untrue: {key}\n" for key in untrue), sep="", end="")
    is_good = not untrue
    for server, found in ours:
        different = {key for key in expected | found if found.get(key) != expected.get(key)}
        is_good &= not different
        print(
            f"{name}:{attribute}: {server}: {len(expected) - len(different)} of {len(expected)} "
            f"observations as with {other}",
            flush=True,
        )
        for key in sorted(different):
            print(f"  {key}: {found.get(key)!r}\n    {other}: {expected.get(key)!r}")
    return is_good


def observed(python: Path, name: str, url: str) -> dict[str, Any]:
    """Run an application's `observe` in a process of its own; give what it saw."""
    code = f"import sys, json, {name} as on; print(json.dumps(on.observe(sys.argv[1])))"
    command = [python, "-W", "ignore", "-c", code, url]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=OBSERVE_MAX_S)
    if done.returncode:
        return {"observe": done.stderr.strip().splitlines()[-1]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


@contextmanager
def served(python: Path, words: list[str], title: str) -> Iterator[int]:
    """Serve an application while the block runs; give the port."""
    log = environment.CACHE / f"{title}.log"
    process = subprocess.Popen(
        [python, "-m", *words],
        cwd=HERE,
        env={**os.environ, "PYTHONPATH": str(environment.PACKAGE)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    ready: list[int] = []
    is_settled = threading.Event()

    def read() -> None:
        assert process.stdout is not None
        with log.open("wb") as file:
            for line in process.stdout:
                file.write(line)
                file.flush()
                if not ready and (match := READY.search(line)):
                    ready.append(int(match[1]))
                    is_settled.set()
        is_settled.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        if not is_settled.wait(START_MAX_S) or not ready:
            sys.exit(f"compat: {words[0]} did not start; see {log.name}")
        yield ready[0]
    finally:
        process.terminate()
        try:
            process.wait(STOP_MAX_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reader.join(STOP_MAX_S)


if __name__ == "__main__":
    sys.exit(main())
