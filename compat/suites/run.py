"""Runs Starlette's and Django's own test suites against a live server, and says what differs.

`make suites` runs it. Both come as source distributions from the package registry, at the versions
that `tests/frameworks` pins, and stay unchanged: `starlette_plugin.py` replaces Starlette's
TestClient, `django_tests.py` Django's LiveServerTestCase and communicator. Each suite also runs
against uvicorn, which separates what no live server passes from what is ours. The exit code is 1 if
a test fails here that passes there, unless DIFFERENT names it with the reason.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import environment  # noqa: E402

PINNED = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text())["dependency-groups"]
VERSIONS = dict(each.split("==") for each in PINNED["frameworks"])
STARLETTE, DJANGO = VERSIONS["starlette"], VERSIONS["Django"]
REQUIREMENTS = [
    *(f"starlette[full]=={STARLETTE}", f"Django=={DJANGO}", "httpx", "httpx2[zstd]", "blockbuster"),
    *("opentelemetry-sdk", "pytest>=9,<10", "pytest-codspeed", "pytest-timeout", "trio", "uvicorn"),
    *("httptools", "click>=8.1,<9", "msgspec>=0.19", "importlib-metadata"),
]
SUITE_MAX_S = 600

HOST = "Bolide responds 400 to a malformed Host by itself (RFC 9112, section 3.2)"
FUTURE = "Bolide knows no IPvFuture in Host, of which none is defined"
CLOSING = "Django's development server leaves open what the client asks to close, and has no chunks"
LEAVING = "its view ends 0.1 s after its client's FIN; Bolide waits 0.5 s (docs/behaviour.md)"
DIFFERENT = {
    "test_https_redirect_middleware_without_server[asyncio-[:::]]": HOST,
    "test_host_routing_rejects_invalid_hosts[asyncio-[:::]]": HOST,
    "test_host_routing_rejects_invalid_hosts[asyncio-api.example.org:evil]": HOST,
    "test_trusted_host_middleware_ipv6[asyncio-[v1.foo]-200]": FUTURE,
    "test_host_routing_ip_literals[asyncio]": FUTURE,
    "test_asyncio_cancel_error": LEAVING,
    "test_asyncio_streaming_cancel_error": LEAVING,
    "test_closes_connection_without_content_length": CLOSING,
    "test_keep_alive_connection_clears_previous_request_data": CLOSING,
    "test_keep_alive_on_connection_with_content_length": CLOSING,
}
"""The end of a test's name, and why it fails here and not on the other server."""

Outcomes = dict[str, dict[str, str]]


def main() -> int:
    """Run both suites on both servers."""
    python = environment.make("suites", REQUIREMENTS)
    starlette = environment.source(python, "starlette", STARLETTE)
    django = environment.source(python, "django", DJANGO) / "tests"
    pytest = ["-m", "pytest", "-q", "-p", "starlette_plugin", "--tb=native", "--timeout=60"]
    unittest = ["-W", "ignore::ResourceWarning", str(HERE / "django_tests.py")]
    suites = {
        f"Starlette {STARLETTE}": (starlette, [*pytest, "tests"]),
        f"Django {DJANGO} servers asgi": (django, [*unittest, "servers", "asgi"]),
    }
    is_good = True
    for title, (folder, words) in suites.items():
        found = {
            server: run(python, folder, words, title, server) for server in ("bolide", "uvicorn")
        }
        is_good &= report(title, **found)
    return 0 if is_good else 1


def run(python: Path, folder: Path, words: list[str], title: str, server: str) -> Outcomes:
    """Run a suite on a server; return what came of each test."""
    name = f"{title.split()[0].lower()}-on-{server}"
    result, log = environment.CACHE / f"{name}.json", environment.CACHE / f"{name}.log"
    result.unlink(missing_ok=True)
    paths = os.pathsep.join((str(environment.PACKAGE), str(HERE)))
    env = {"PYTHONPATH": paths, "COMPAT_SERVER": server, "COMPAT_RESULT": str(result)}
    with log.open("w") as file:
        subprocess.run(
            [python, *words],
            cwd=folder,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            timeout=SUITE_MAX_S,
        )
    if not result.exists():
        sys.exit(f"compat: {title} did not run on {server}; see {log.name}")
    outcomes: Outcomes = json.loads(result.read_text())["outcomes"]
    return outcomes


def report(title: str, bolide: Outcomes, uvicorn: Outcomes) -> bool:
    """Print the figures of a suite; return whether every difference is a known one."""
    live = {name for name in bolide if int(bolide[name].get("requests") or 0)}
    counts = Counter(bolide[name]["outcome"] for name in live)
    there = Counter(uvicorn[name]["outcome"] for name in live if name in uvicorn)
    print(f"\n{title}: {len(live)} tests sent requests to the server")
    print(f"  Bolide: {dict(counts)}, uvicorn: {dict(there)}")
    is_good = bool(live)
    for name in sorted(live):
        each, other = bolide[name], uvicorn.get(name, {"outcome": "not run"})
        if each["outcome"] != "failed":
            continue
        known = [reason for end, reason in DIFFERENT.items() if name.endswith(end)]
        if other["outcome"] == "passed":
            is_good &= bool(known)
            print(f"  ours: {name}: {known[0] if known else each['reason']}")
        else:
            print(f"  no live server's: {name}: {each['reason'][:120]}")
    for name in sorted(live):
        if bolide[name]["outcome"] == "passed" and uvicorn.get(name, {}).get("outcome") == "failed":
            print(f"  uvicorn's: {name}: {uvicorn[name]['reason'][:120]}")
    return is_good


if __name__ == "__main__":
    sys.exit(main())
