"""Which of several certificates a client gets."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from support.server import Server, Start
from tls.authority import Authority, Files, SecureConnection

pytestmark = pytest.mark.slow


@pytest.fixture
def pairs(authority: Authority, tmp_path: Path) -> list[Files]:
    names = ("first.test",), ("*.wild.test", "wild.test"), ("exact.wild.test",)
    return [authority.issue(tmp_path, *each) for each in names]


def serials(server: Server, client: ssl.SSLContext) -> list[int]:
    client.check_hostname = False
    names = ["a.wild.test", "wild.test", "exact.wild.test", "other.test", None, "first.test"]
    found = []
    for name in names:
        with SecureConnection(server, client, name) as connection:
            found.append(connection.certificate.serial_number)
            assert connection.get("/").status == 200
    return found


def expected(pairs: list[Files]) -> list[int]:
    numbers = [pair.x509.serial_number for pair in pairs]
    return [numbers[index] for index in (1, 1, 2, 0, 0, 0)]


def test_flags_in_pairs(start: Start, pairs: list[Files], client: ssl.SSLContext) -> None:
    options = [option for pair in pairs for option in pair.options]
    assert serials(start("basic.py", *options), client) == expected(pairs)


def test_tables_of_a_file(
    start: Start, pairs: list[Files], client: ssl.SSLContext, tmp_path: Path
) -> None:
    tables = [
        f'[[tls]]\ncertificate = "{pair.certificate}"\nkey = "{pair.key}"\n' for pair in pairs
    ]
    path = tmp_path / "bolide.toml"
    path.write_text("workers = 1\n" + "".join(tables))
    server = start("basic.py", "--config", str(path))
    assert serials(server, client) == expected(pairs)


def test_lists_of_a_variable(start: Start, pairs: list[Files], client: ssl.SSLContext) -> None:
    env = {
        "BOLIDE_CERTIFICATE": ",".join(str(pair.certificate) for pair in pairs),
        "BOLIDE_KEY": ",".join(str(pair.key) for pair in pairs),
    }
    assert serials(start("basic.py", env=env), client) == expected(pairs)
