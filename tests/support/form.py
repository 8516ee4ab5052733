"""Writes the contents of HTML forms, byte by byte as a browser sends them."""

from __future__ import annotations

from urllib.parse import urlencode

BOUNDARY = "----boundary-of-the-tests"


def urlencoded(fields: dict[str, str]) -> tuple[str, bytes]:
    """Return the Content-Type field line, and the content, of a form without files."""
    return "Content-Type: application/x-www-form-urlencoded", urlencode(fields).encode()


def multipart(fields: dict[str, str], files: dict[str, tuple[str, bytes]]) -> tuple[str, bytes]:
    """Return the same for a form with files; each has a name and a content (RFC 7578)."""
    parts = [(f'name="{name}"', value.encode()) for name, value in fields.items()]
    for name, (filename, content) in files.items():
        lines = f'name="{name}"; filename="{filename}"\r\nContent-Type: application/octet-stream'
        parts.append((lines, content))
    written = b"".join(
        f"--{BOUNDARY}\r\nContent-Disposition: form-data; {lines}\r\n\r\n".encode()
        + value
        + b"\r\n"
        for lines, value in parts
    )
    field_line = f"Content-Type: multipart/form-data; boundary={BOUNDARY}"
    return field_line, written + f"--{BOUNDARY}--\r\n".encode()
