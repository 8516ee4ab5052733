"""Spans of OpenTelemetry: `bolide.otel` for native handlers, its own middlewares for the others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bolide import App, TestClient
from bolide.errors import RegistrationError
from support.client import Connection
from support.h2 import Client
from support.server import Server, Start

pytestmark = pytest.mark.slow

pytest.importorskip("opentelemetry.sdk")
pytest.importorskip("opentelemetry.instrumentation.asgi")
pytest.importorskip("opentelemetry.instrumentation.wsgi")

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
FIELDS = (f"traceparent: 00-{TRACE}-{PARENT}-01", "tracestate: a=1", "tracestate: b=2")
PAIRS = [tuple(part.encode() for part in line.split(": ")) for line in FIELDS]


def spans(client: Connection) -> list[dict[str, Any]]:
    """Return the spans that have ended, except those of this request and earlier ones like it."""
    found: list[dict[str, Any]] = client.get("/spans").json()
    return [each for each in found if each["kind"] == "SERVER" and "/spans" not in str(each)]


@pytest.fixture
def native(start: Start) -> Server:
    """Return a server of native handlers in spans."""
    return start("traced/on_native.py", "--h2c")


def test_a_span_has_its_parent_and_the_handler_runs_in_it(native: Server) -> None:
    with native.connect() as client, Client(native.connect()) as streams:
        for _ in range(2):
            current = client.get("/users/42?q=1", *FIELDS, "User-Agent: test").content.decode()
            (span,) = spans(client)
            assert (span["name"], span["kind"]) == ("GET /users/{user:int}", "SERVER")
            assert (span["trace"], span["parent"], span["state"]) == (TRACE, PARENT, "a=1,b=2")
            assert span["id"] == current
            assert span["attributes"] == {
                "http.request.method": "GET",
                "http.route": "/users/{user:int}",
                "http.response.status_code": 200,
                "url.scheme": "http",
                "url.path": "/users/42",
                "url.query": "q=1",
                "network.protocol.version": "1.1",
                "user_agent.original": "test",
                "client.address": "127.0.0.1",
                "server.address": "test",
            }
            assert (span["status"], span["events"]) == ("UNSET", [])
        current = streams.request(1, "/later/a", *PAIRS).content.decode()  # type: ignore[arg-type]
        (span,) = spans(client)
        assert (span["name"], span["id"]) == ("GET /later/{name}", current)
        assert (span["trace"], span["parent"], span["state"]) == (TRACE, PARENT, "a=1,b=2")
        assert span["attributes"]["http.response.status_code"] == 202
        assert span["attributes"]["network.protocol.version"] == "2"


def test_requests_without_a_parent_start_traces(native: Server) -> None:
    with native.connect() as client:
        for fields in ((), ("traceparent: nonsense",)):
            client.get("/users/1", *fields)
        first, second = spans(client)
    assert first["parent"] is second["parent"] is None
    assert first["trace"] != second["trace"]


@pytest.mark.parametrize(
    ("path", "status", "shown", "kind", "events"),
    [
        ("/response", 503, "ERROR", "503", []),
        ("/nothing", 204, "UNSET", None, []),
        ("/refuse", 403, "UNSET", None, []),
        ("/raise", 500, "ERROR", "ValueError", ["exception"]),
        ("/stream", 200, "UNSET", None, []),
    ],
)
def test_a_span_has_the_outcome(
    native: Server, path: str, status: int, shown: str, kind: str | None, events: list[str]
) -> None:
    with native.connect() as client:
        assert client.get(path).status == status
        (span,) = spans(client)
    assert span["attributes"]["http.response.status_code"] == status
    assert span["attributes"].get("error.type") == kind
    assert (span["status"], span["events"]) == (shown, events)


def test_what_an_error_handler_responds_to_is_no_error(native: Server) -> None:
    with native.connect() as client:
        assert client.get("/expected").status == 404
        (span,) = spans(client)
    assert "http.response.status_code" not in span["attributes"]
    assert "error.type" not in span["attributes"]
    assert (span["status"], span["events"]) == ("UNSET", [])


def test_a_client_that_leaves_is_no_error(native: Server) -> None:
    with native.connect() as client:
        client.get("/leave")
        (span,) = spans(client)
    assert (span["status"], span["events"]) == ("UNSET", [])


def test_a_method_of_a_clients_own_is_in_no_name(native: Server) -> None:
    with native.connect() as client:
        client.send(b"BREW /later/a HTTP/1.1\r\nHost: [::1]:81\r\n\r\n")
        assert client.read().status == 202
        (span,) = spans(client)
    assert span["name"] == "HTTP /later/{name}"
    attributes = span["attributes"]
    assert attributes["http.request.method"] == "_OTHER"
    assert attributes["http.request.method_original"] == "BREW"
    assert (attributes["server.address"], attributes["server.port"]) == ("::1", 81)


def test_it_comes_before_the_routes() -> None:
    from bolide.otel import traced

    app = App()
    app.get("/")(lambda request: "a")
    with pytest.raises(RegistrationError, match="traced\\(\\) is called before the first route"):
        traced(app)


def test_without_a_provider_it_costs_little_and_changes_nothing() -> None:
    from opentelemetry import trace

    from bolide.otel import traced

    app = traced(App(), tracer_provider=trace.NoOpTracerProvider())
    app.get("/{name}")(lambda request, name: name)
    with TestClient(app) as client:
        assert client.get("/a").text == "a"


def test_nothing_is_imported_unless_it_is_used(tmp_path: Path) -> None:
    code = "import bolide, sys; bolide.App(); print([m for m in sys.modules if 'telemetry' in m])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


@pytest.mark.parametrize("name", ["on_asgi", "on_wsgi"])
def test_the_middlewares_of_opentelemetry_work(start: Start, name: str) -> None:
    server = start(f"traced/{name}.py", "--h2c")
    with server.connect() as client, Client(server.connect()) as streams:
        current = client.get("/a", *FIELDS).content.decode()
        (span,) = spans(client)
        assert (span["trace"], span["parent"]) == (TRACE, PARENT)
        assert (span["id"], span["status"]) == (current, "UNSET")
        current = streams.request(1, "/a", *PAIRS).content.decode()  # type: ignore[arg-type]
        (span,) = spans(client)
        assert (span["trace"], span["parent"], span["id"]) == (TRACE, PARENT, current)
