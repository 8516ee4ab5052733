"""Requests as bytes."""

from __future__ import annotations


def head(method: str, path: str, *fields: str, version: str = "1.1") -> bytes:
    """Return the head of a request."""
    return "\r\n".join([f"{method} {path} HTTP/{version}", "Host: test", *fields, "", ""]).encode()


def upload(path: str, content: bytes) -> bytes:
    """Return a request with a content of known length."""
    return head("POST", path, f"Content-Length: {len(content)}") + content
