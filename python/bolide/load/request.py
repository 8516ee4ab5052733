"""The requests of a plan: what each sends, and which response is correct."""

from __future__ import annotations

import re
from typing import Any

from bolide.errors import ConfigError
from bolide.load import field, requestfile
from bolide.load.destination import Destination
from bolide.load.options import Options

LENGTH_MAX = 1 << 53
_METHOD = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


def requests(options: Options, destination: Destination) -> list[dict[str, Any]]:
    """Return the plan's requests: one per URL, or those of the request file.

    Raises:
        ConfigError: two options contradict each other, or a file cannot be read.
    """
    lines = [field.read(text, "--header") for text in options.headers]
    lines, host = field.take_host(lines)
    host = host or destination.host
    # The content of a WebSocket's request is its messages'.
    fixed = {"method": "GET"} if destination.is_websocket else {}
    if not options.request_file:
        return [
            _request(options, lines, host, fixed | {"target": target, "weight": weight})
            for target, weight in destination.targets
        ]
    if options.method or options.body is not None:
        raise ConfigError("--method and --body cannot be combined with --request-file")
    if len(destination.targets) > 1 or destination.targets[0][1] > 1:
        raise ConfigError("--request-file needs one URL, of the server; give paths in the file")
    found = []
    for table in requestfile.read(options.request_file):
        target = table.get("path", destination.targets[0][0])
        own, own_host = field.take_host(table.get("headers", []))
        given = {**table, "target": target}
        found.append(_request(options, [*lines, *own], own_host or host, given))
    return found


def check(options: Options) -> None:
    """Check what needs neither a file nor a server.

    Raises:
        ConfigError: a value is not valid.
    """
    _, host = field.take_host([field.read(text, "--header") for text in options.headers])
    _refuse_values(options.method or "GET", host or "", options.expect_status)


def _refuse_values(method: str, host: str, status: int | None) -> None:
    if not _METHOD.fullmatch(method):
        raise ConfigError(f"--method: {method!r} is not a method; give one like GET or POST")
    if not re.fullmatch(r"[\x21-\x7e]*", host):
        raise ConfigError(f"Host: {host!r} is not a host; give NAME or NAME:PORT")
    if status is not None and not 200 <= status <= 599:
        raise ConfigError(f"--expect-status: {status} is not a final status; give 200 to 599")


def _request(
    options: Options, lines: list[tuple[str, str]], host: str, given: dict[str, Any]
) -> dict[str, Any]:
    """Make one request from its own keys, `given`, and from `options` for the rest."""
    content = given.get("body", options.body)
    method = given.get("method") or options.method or ("GET" if content is None else "POST")
    if not given["target"].startswith(("/", "http://")) and given["target"] != "*":
        raise ConfigError(f"path {given['target']!r} does not start with a slash")
    status = given.get("expect_status", options.expect_status)
    _refuse_values(method, host, status)
    length = given.get("expect_length", options.expect_length)
    if length is not None and length < 0:
        raise ConfigError(f"--expect-length: {length} is below 0; give the content's length")
    if length is not None and length > LENGTH_MAX:
        raise ConfigError(f"--expect-length: {length} is more than {LENGTH_MAX:,}; give fewer")
    return {
        "method": method,
        "target": given["target"],
        "host": host,
        "field_lines": lines,
        "content": content,
        "weight": given.get("weight", 1),
        "expected_status": status,
        "expected_length": length,
        "expected_content": given.get("expect_body", options.expect_body),
        "is_any_length": options.may_vary_in_length,
        "is_template": options.expect_same,
    }
