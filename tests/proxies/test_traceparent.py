"""traceparent and tracestate (W3C Trace Context) reach every application as they were sent."""

from __future__ import annotations

import json

import pytest

from support.h2 import Client
from support.server import Start

pytestmark = pytest.mark.slow

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
LINES = [
    ("traceparent", TRACEPARENT),
    ("tracestate", "rojo=00f067aa0ba902b7, congo=t61rcWkgMzE"),
    ("tracestate", "other@vendor=a=b"),
    ("baggage", "userId=alice,serverNode=DF%2028;k=v"),
]
"""The values of the specification's examples, and one that no version has defined."""
UNKNOWN = ("traceparent", "cc-00000000000000000000000000000000-0000000000000000-ff-what-comes-next")


@pytest.mark.parametrize("lines", [LINES, [UNKNOWN]], ids=["known", "unknown"])
@pytest.mark.parametrize("options", [(), ("--request-id", "on", "--untrusted-forwarded", "remove")])
@pytest.mark.parametrize("name", ["on_native", "on_asgi", "on_wsgi"])
def test_what_is_sent_arrives(
    start: Start, name: str, options: tuple[str, ...], lines: list[tuple[str, str]]
) -> None:
    server = start(f"tracing/{name}.py", "--h2c", *options)
    expected = [list(line) for line in lines]
    if name == "on_wsgi":  # several lines are one value
        by_name: dict[str, list[str]] = {}
        for field, value in lines:
            by_name.setdefault(field, []).append(value)
        expected = [[field, ",".join(values)] for field, values in by_name.items()]
    with server.connect() as client, Client(server.connect()) as streams:
        fields = [f"{field}: {value}" for field, value in lines]
        assert client.get("/", *fields).json() == expected
        assert client.get("/").json() == []
        pairs = [(field.encode(), value.encode()) for field, value in lines]
        assert json.loads(streams.request(1, "/", *pairs).content) == expected
