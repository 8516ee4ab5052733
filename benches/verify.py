"""Proves that a contestant responds to a workload's request correctly, before it is measured."""

import socket
from typing import BinaryIO

from environments import UnavailableError
from workloads import Workload

REPEATED = 3
PATIENCE_S = 5.0


def request_bytes(port: int, workload: Workload) -> bytes:
    """Give the request that the generator sends."""
    method = "GET" if workload.upload_bytes is None else "POST"
    lines = [f"{method} {workload.target} HTTP/1.1", f"Host: 127.0.0.1:{port}"]
    lines += [f"{name}: {value}" for name, value in workload.fields]
    if not workload.persistent:
        lines.append("Connection: close")
    if workload.upload_bytes is not None:
        lines.append(f"Content-Length: {workload.upload_bytes}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + b"x" * (workload.upload_bytes or 0)


def verify(port: int, workload: Workload) -> bytes:
    """Prove the responses correct, and give the content.

    One request, then three on the same connection where connections persist, in one send if the
    workload pipelines; each response must have status 200, the right content, and nothing after the
    last.

    Raises: UnavailableError.
    """
    request = request_bytes(port, workload)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as stream:
            reader = stream.makefile("rb")
            stream.sendall(request)
            body = _read_answer(reader)
            if workload.expected is not None and body != workload.expected:
                raise UnavailableError(f"responded {body[:40]!r}")
            if workload.persistent:
                if _repeated(stream, reader, request, workload.depth > 1) != [body] * REPEATED:
                    raise UnavailableError("further responses differ from the first one")
                stream.shutdown(socket.SHUT_WR)
            if reader.read() != b"":
                raise UnavailableError("bytes after the last response")
    except OSError as error:
        raise UnavailableError(f"verification failed: {error}") from error
    return body


def _repeated(
    stream: socket.socket, reader: BinaryIO, request: bytes, is_pipelined: bool
) -> list[bytes]:
    if is_pipelined:
        stream.sendall(request * REPEATED)
        return [_read_answer(reader) for _ in range(REPEATED)]
    found = []
    for _ in range(REPEATED):
        stream.sendall(request)
        found.append(_read_answer(reader))
    return found


def _read_answer(reader: BinaryIO) -> bytes:
    status = reader.readline()
    if status.split()[1:2] != [b"200"]:
        raise UnavailableError(f"responded {status!r}")
    length, is_chunked = None, False
    while (line := reader.readline()) not in (b"\r\n", b""):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
        if name.lower() == b"transfer-encoding":
            is_chunked = value.strip().lower() == b"chunked"
    if is_chunked:
        return _read_chunked(reader)
    if length is None:
        raise UnavailableError("a response whose length nothing says")
    return reader.read(length)


def _read_chunked(reader: BinaryIO) -> bytes:
    content = b""
    while size := int(reader.readline().partition(b";")[0] or b"0", 16):
        content += reader.read(size)
        reader.readline()
    reader.readline()
    return content
