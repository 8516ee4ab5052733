"""A call that is under way when the interpreter ends."""

from __future__ import annotations

from contextlib import suppress

import pytest

from support.embedding import EmbeddingProgram
from support.server import APPLICATIONS

pytestmark = pytest.mark.slow


class Unfinished(EmbeddingProgram):
    """A program that ends while a call of its application waits."""

    program = ("wsgi/unfinished.py",)


@pytest.mark.parametrize("where", ["call", "computing", "block", "close", "file"])
def test_it_does_not_abort_the_process(where: str) -> None:
    """CPython up to 3.13 ends its thread in the middle, which must not unwind frames of Rust."""
    program = Unfinished([where], APPLICATIONS)
    try:
        program.wait_ready()
        with program.connect() as client:
            client.send(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")
            with suppress(ConnectionError):
                client.read_to_end()
        assert program.wait() == 0, program.errors
        assert "finalized" in program.errors
        assert "Traceback" not in program.errors
    finally:
        program.close()
