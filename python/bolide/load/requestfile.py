"""A file of requests with weights, in TOML: `--request-file`.

    [[request]]
    method = "POST"                     # default: GET, or POST with a body
    path = "/items?page=2"              # default: the URL's
    headers = { Content-Type = "application/json", Accept = ["text/html", "text/plain"] }
    body = '{"name": "anvil"}'          # or body_file = "anvil.json", found beside this file
    weight = 3                          # default: 1
    expect_status = 201                 # also: expect_length, expect_body; default: the flags'

A request is sent in proportion to its weight, evenly interleaved with the others.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from bolide.errors import ConfigError
from bolide.load import field

KEYS: dict[str, type | tuple[type, ...]] = {
    "method": str,
    "path": str,
    "headers": dict,
    "body": str,
    "body_file": str,
    "weight": int,
    "expect_status": int,
    "expect_length": int,
    "expect_body": str,
}


def read(path: Path) -> list[dict[str, Any]]:
    """Read the requests; each has only the keys that are in the file.

    `headers` are pairs, `body` and `expect_body` are bytes. `body_file` is replaced by `body`.

    Raises:
        ConfigError: the file cannot be read, or has an unknown key or a wrong value.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"cannot read the request file {path}: {reason}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    tables = document.pop("request", None)
    if document or not isinstance(tables, list) or not tables:
        wrong = f"has the key {min(document)!r}" if document else "contains no request"
        raise ConfigError(f"{path} {wrong}; give [[request]] tables with {', '.join(KEYS)}")
    return [_request(table, f"{path}: request {n}", path) for n, table in enumerate(tables, 1)]


def _request(table: Any, origin: str, path: Path) -> dict[str, Any]:
    _check_types(table, origin)
    request: dict[str, Any] = dict(table)
    if "headers" in request:
        request["headers"] = _field_lines(request["headers"], origin)
    if "body_file" in request:
        if "body" in request:
            raise ConfigError(f"{origin} has body and body_file; give only one of them")
        request["body"] = content_of(path.parent / request.pop("body_file"))
    for key in ("body", "expect_body"):
        if isinstance(request.get(key), str):
            request[key] = request[key].encode()
    if request.get("weight", 1) < 1:
        raise ConfigError(f"{origin}: weight {request['weight']} is below 1; leave the request out")
    return request


def _check_types(table: Any, origin: str) -> None:
    if not isinstance(table, dict):
        raise ConfigError(f"{origin} is not a table; give [[request]] tables")
    for key, value in table.items():
        if key not in KEYS:
            raise ConfigError(f"{origin} has the key {key!r}; give {', '.join(KEYS)}")
        if not isinstance(value, KEYS[key]) or isinstance(value, bool):
            raise ConfigError(f"{origin}: {key} = {value!r} has the wrong type; see docs/load.md")


def _field_lines(table: dict[str, Any], origin: str) -> list[tuple[str, str]]:
    """Parse a table of headers; each item of a list becomes a field line."""
    lines = []
    for name, values in table.items():
        for value in values if isinstance(values, list) else [values]:
            if not isinstance(value, str):
                raise ConfigError(f"{origin}: header {name} = {value!r} is not text; quote it")
            lines.append(field.checked(name, value, origin))
    return lines


def content_of(path: Path) -> bytes:
    """Read a file whose content is sent or expected.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except ValueError:
        raise ConfigError(f"cannot read {str(path)!r}: it is not a path") from None
