"""A mistake names its cause and what to do, and nothing of a key."""

from __future__ import annotations

import datetime
import os
import subprocess
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import PrivateFormat

from bolide.config.settings import resolve
from bolide.errors import ConfigError
from bolide.server.tls.certificates import Certificates, validity
from support.server import APPLICATIONS, Start, command
from tls.authority import Authority, Files, SecureConnection

pytestmark = pytest.mark.slow

TRADITIONAL, PKCS8 = PrivateFormat.TraditionalOpenSSL, PrivateFormat.PKCS8


def mistake(*options: str) -> str:
    """Start a server with a mistake; return the line that it writes."""
    code, out, err = command("serve", "basic.py", "--port", "0", *options, cwd=APPLICATIONS)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1, err
    return err.removeprefix("bolide: ").strip()


def refusal(**options: object) -> str:
    """Return the message of the refusal of options, which every way to start has."""
    with pytest.raises(ConfigError) as caught:
        Certificates(resolve(options, environ={}))
    return str(caught.value)


def test_files_that_cannot_be_read(files: Files, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.pem")
    text = f"cannot read {missing}: No such file or directory; give the path of a file in PEM"
    assert mistake("--certificate", missing, "--key", str(files.key)).endswith(
        f"certificate: {text}"
    )
    assert refusal(certificate=files.certificate, key=missing) == f"key: {text}"
    text = f"key: cannot read {tmp_path}: Is a directory; give the path of a file in PEM"
    assert refusal(certificate=files.certificate, key=tmp_path) == text
    found = refusal(certificate=files.certificate, key=files.key, key_password_file=missing)
    assert "key_password_file: cannot read" in found
    assert "give the path of a file with the password" in found


@pytest.mark.parametrize("option", ["certificate", "key", "key_password_file"])
def test_files_without_a_bound(files: Files, tmp_path: Path, option: str) -> None:
    huge = tmp_path / "huge.pem"
    with huge.open("wb") as file:
        file.truncate((16 << 20) + 1)
    given = {"certificate": files.certificate, "key": files.key, option: huge}
    assert f"{option}: cannot read {huge}: it is larger than 16 MiB; give" in refusal(**given)


def test_files_that_may_not_be_read(
    files: Files, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(path: str, flags: int) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.chdir(tmp_path)  # in which there is no configuration file
    monkeypatch.setattr(os, "open", refuse)
    text = f"cannot read {files.certificate}: Permission denied; let the user of the server read it"
    assert refusal(certificate=files.certificate, key=files.key) == f"certificate: {text}"


def test_a_pipe_is_refused_and_not_waited_for(files: Files, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = f"{pipe} is not a regular file; give the path of a file"
    assert refusal(certificate=pipe, key=files.key) == f"certificate: {text} in PEM"
    assert refusal(certificate=files.certificate, key=pipe) == f"key: {text} in PEM"
    found = refusal(certificate=files.certificate, key=files.key, key_password_file=pipe)
    assert found == f"key_password_file: {text} with the password"


def test_what_is_broken_in_pem_is_not_quoted(files: Files, tmp_path: Path) -> None:
    certificate, key = files.certificate.read_text(), files.key.read_text()
    both = tmp_path / "both.pem"
    both.write_text(certificate + key.replace("-----\n", "-----", 1))
    for given in ({"certificate": both, "key": files.key}, {"certificate": both, "key": both}):
        text = f"certificate: {both} cannot be used: it is not PEM: a BEGIN line is malformed"
        assert refusal(**given) == text
    ca = {"client_ca": both, "client_certificate": "required"}
    found = refusal(certificate=files.certificate, key=files.key, **ca)
    assert found == f"client_ca: {both} cannot be used: it is not PEM: a BEGIN line is malformed"


def test_a_locked_key_in_the_file_of_its_certificate(files: Files, tmp_path: Path) -> None:
    files.lock(b"secret", PKCS8)
    password, both = tmp_path / "password", tmp_path / "both.pem"
    password.write_text("secret\n")
    both.write_text(files.certificate.read_text() + files.key.read_text())
    given = {"certificate": both, "key": both, "key_password_file": password}
    assert Certificates(resolve(given, environ={})).current.certificates[0].names == ["localhost"]
    both.write_text(files.key.read_text() + files.certificate.read_text())
    assert Certificates(resolve(given, environ={})).current.certificates[0].names == ["localhost"]


def test_workers_get_keys_that_are_open(files: Files, tmp_path: Path) -> None:
    files.lock(b"secret", PKCS8)
    password = tmp_path / "password"
    password.write_text("secret\n")
    given = {"certificate": files.certificate, "key": files.key, "key_password_file": password}
    certificates = Certificates(resolve(given, environ={}))
    with open(certificates.in_memory(), "rb") as file:
        file.seek(0)
        [[chain, key]], authorities, lists = msgspec.msgpack.decode(file.read())
    assert (chain, authorities, lists) == (files.certificate.read_bytes(), None, [])
    assert key.startswith(b"-----BEGIN PRIVATE KEY-----\n")
    serialization.load_pem_private_key(key, None)


def test_a_certificate_without_a_key_and_the_reverse(files: Files) -> None:
    certificate, key = str(files.certificate), str(files.key)
    assert refusal(certificate=certificate) == (
        f"certificate: {certificate} has no key; give the file with its private key too "
        "(--key PATH), or self-signed as the certificate for development"
    )
    assert refusal(key=key) == (
        f"key: {key} has no certificate; give the file with its certificate too "
        "(--certificate PATH)"
    )
    assert refusal(certificate="self-signed", key=key).endswith(
        "; self-signed has a key of its own"
    )
    assert "has no certificate" in refusal(certificate=certificate, key=[key, key])
    assert mistake("--key", key).endswith("(--certificate PATH)")
    empty = "the path is empty; give one (is a variable not set?)"
    assert mistake("--certificate", "", "--key", key).endswith(f"certificate: {empty}")
    assert mistake("--certificate", certificate, "--key", "").endswith(f" key: {empty}")


def test_content_that_is_not_what_it_should_be(
    files: Files, authority: Authority, tmp_path: Path
) -> None:
    other = authority.issue(tmp_path, "other.test")
    text = f"key: {other.key} is not the key of the certificate {files.certificate}; give its own"
    assert refusal(certificate=files.certificate, key=other.key) == text
    assert mistake("--certificate", str(files.certificate), "--key", str(other.key)).endswith(text)
    found = refusal(certificate=files.key, key=files.key)
    text = "has a private key and no certificate; give the file with the certificate"
    assert found == f"certificate: {files.key} {text}"
    found = refusal(certificate=files.certificate, key=files.certificate)
    text = "has a certificate and no private key; give the file with its private key"
    assert found == f"key: {files.certificate} {text}"
    der = tmp_path / "der"
    der.write_bytes(b"\x30\x82\x01\x00\x00\xff")
    assert "has no certificate in PEM" in refusal(certificate=der, key=files.key)
    ca = {"client_ca": der, "client_certificate": "required"}
    found = refusal(certificate=files.certificate, key=files.key, **ca)
    assert found.startswith(f"client_ca: {der} has no certificate in PEM")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b" \n", "is empty; give the file with the certificate"),
        (
            b"-----BEGIN CERTIFICATE REQUEST-----\nAA==\n-----END CERTIFICATE REQUEST-----\n",
            "has a request for a certificate; give the certificate that the authority issued",
        ),
        (
            b"-----BEGIN PUBLIC KEY-----\nAA==\n-----END PUBLIC KEY-----\n",
            "has a public key and no certificate; give the file with the certificate",
        ),
        (
            b"\x30\x82\x09\x99\x02\x01\x03\x30",
            "is PKCS #12; `openssl pkcs12 -in FILE -nokeys -out cert.pem` converts it",
        ),
        (
            b"-----BEGIN TRUSTED CERTIFICATE-----\nAA==\n-----END TRUSTED CERTIFICATE-----\n",
            "is in a form of OpenSSL's own; `openssl x509 -in FILE -out cert.pem` converts it",
        ),
        (b"hello", "has no certificate in PEM; give the file with it"),
    ],
)
def test_a_file_that_has_something_else(
    files: Files, tmp_path: Path, content: bytes, text: str
) -> None:
    other = tmp_path / "other"
    other.write_bytes(content)
    assert refusal(certificate=other, key=files.key) == f"certificate: {other} {text}"


def test_a_certificate_of_the_first_version(files: Files, tmp_path: Path) -> None:
    old = old_version(files.key, tmp_path)
    text = f"certificate: {old} is of X.509 version 1, which has no extensions and thus no names "
    text += "that clients verify; issue it again with them: `openssl x509 -req ... -extfile FILE`, "
    assert refusal(certificate=old, key=files.key) == (
        text + "where FILE has subjectAltName=DNS:NAME"
    )
    # What the message says to do.
    extensions = tmp_path / "extensions"
    extensions.write_text("subjectAltName=DNS:localhost")
    new = old_version(files.key, tmp_path, "-extfile", str(extensions))
    found = Certificates(resolve({"certificate": new, "key": files.key}, environ={}))
    assert found.current.certificates[0].names == ["localhost"]


def old_version(key: Path, folder: Path, *options: str) -> Path:
    """Issue a certificate with openssl, without extensions unless `options` say so."""
    request, certificate = folder / "request.csr", folder / "old.pem"
    how = ["openssl", "req", "-new", "-key", str(key), "-subj", "/CN=localhost"]
    subprocess.run([*how, "-out", str(request)], check=True, capture_output=True, timeout=20)
    how = ["openssl", "x509", "-req", "-in", str(request), "-signkey", str(key), *options]
    subprocess.run([*how, "-out", str(certificate)], check=True, capture_output=True, timeout=20)
    return certificate


def test_a_mark_of_the_encoding_is_ignored(files: Files) -> None:
    for path in (files.certificate, files.key):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    given = {"certificate": files.certificate, "key": files.key}
    assert Certificates(resolve(given, environ={})).current.certificates[0].names == ["localhost"]


@pytest.mark.parametrize("form", [PKCS8, TRADITIONAL])
def test_a_key_with_a_password_that_is_not_given(files: Files, form: PrivateFormat) -> None:
    files.lock(b"secret", form)
    text = "has a password; give the file with it too (--key-password-file PATH)"
    assert refusal(certificate=files.certificate, key=files.key) == f"key: {files.key} {text}"


def test_a_key_with_another_password(files: Files, tmp_path: Path) -> None:
    files.lock(b"secret", PKCS8)
    password = tmp_path / "password"
    password.write_text("another-one\n")
    given = {"certificate": files.certificate, "key": files.key, "key_password_file": password}
    text = f"key_password_file: the password in {password} does not open {files.key}"
    assert refusal(**given) == text


def test_a_key_that_is_encrypted_in_an_old_way(files: Files, tmp_path: Path) -> None:
    files.lock(b"secret", TRADITIONAL)
    password = tmp_path / "password"
    password.write_text("secret")
    given = {"certificate": files.certificate, "key": files.key, "key_password_file": password}
    found = refusal(**given)
    assert found.startswith(f"key: {files.key} is encrypted in a way that is not supported; ")
    # What the message says to do.
    files.key.rename(tmp_path / "old.key")
    how = ["openssl", "pkcs8", "-topk8", "-in", str(tmp_path / "old.key"), "-out", str(files.key)]
    how += ["-passin", "pass:secret", "-passout", "pass:secret"]
    subprocess.run(how, check=True, capture_output=True, timeout=20)
    assert Certificates(resolve(given, environ={})).current.certificates[0].names == ["localhost"]


@pytest.mark.parametrize(
    "how",
    [
        ["-v2", "aes-128-cbc", "-v2prf", "hmacWithSHA1"],
        ["-v2", "aes-192-cbc", "-v2prf", "hmacWithSHA384"],
        ["-v2", "aes-256-cbc", "-v2prf", "hmacWithSHA512", "-iter", "1"],
    ],
)
def test_keys_with_a_password_are_used(
    start: Start, files: Files, authority: Authority, tmp_path: Path, how: list[str]
) -> None:
    password, locked = tmp_path / "password", tmp_path / "locked.key"
    password.write_text("pässword with spaces \r\nnext line\n")
    given = ["-in", str(files.key), "-out", str(locked), "-passout", "stdin", *how]
    subprocess.run(
        ["openssl", "pkcs8", "-topk8", *given],
        input="pässword with spaces ".encode(),
        check=True,
        capture_output=True,
        timeout=20,
    )
    options = ["--certificate", str(files.certificate), "--key", str(locked)]
    server = start("basic.py", *options, "--key-password-file", str(password))
    with SecureConnection(server, authority.client()) as connection:
        assert connection.get("/").status == 200


def test_options_that_need_others(files: Files) -> None:
    pair = {"certificate": files.certificate, "key": files.key}
    assert "give client_certificate too" in refusal(**pair, client_ca="ca.pem")
    assert "(--client-ca PATH)" in refusal(**pair, client_certificate="required")
    given = {"certificate": "self-signed", "port": 8443, "redirect_to_https": "127.0.0.1:8443"}
    assert refusal(**given) == (
        "redirect_to_https: 127.0.0.1:8443 is where the application is served; give an address "
        "of its own for clients that use http"
    )
    found = refusal(redirect_to_https="127.0.0.1:0")
    assert found.startswith("redirect_to_https: the server does not use TLS; ")
    for option, value in (("tls_minimum", "1.3"), ("tls_minimum", "1.2"), ("alpn", "http/1.1")):
        found = refusal(**{option: value})
        assert found.startswith(f"{option}: the server does not use TLS; "), found
    assert refusal(**pair, https_port=443) == (
        "https_port: no client is redirected; give the address for http too "
        "(--redirect-to-https ADDRESS)"
    )
    passwords = ["one", "two"]
    assert "2 files for 1 keys" in refusal(**pair, key_password_file=passwords)
    assert "there is no key" in refusal(certificate="self-signed", key_password_file=["one"])


def test_tables_with_mistakes(files: Files) -> None:
    pair = {"certificate": str(files.certificate), "key": str(files.key)}
    for tables, text in (
        (["x"], "a table has no certificate"),
        ("x", "'x' is not a table"),
        ([{"certificate": "a"}], "the certificate a has no key"),
        ([pair | {"keys": "b"}], "no such option 'keys'; a table may have certificate, key, "),
        ([pair | {"key": 1}], "key is not text"),
    ):
        found = refusal(tls=tables)
        assert found.startswith("tls=: "), found
        assert text in found
    found = refusal(tls=[pair], key="k")
    assert found == "tls=: key is given beside it; write every pair in a table"


@pytest.mark.parametrize(
    ("flag", "instead"),
    [
        ("--ssl-certfile=c.pem", "use --certificate"),
        ("--certfile=c.pem", "use --certificate"),
        ("--ssl-keyfile=k.pem", "use --key"),
        ("--ssl-keyfile-password=x", "use --key-password-file"),
        ("--ssl-ca-certs=ca.pem", "use --client-ca and --client-certificate"),
        ("--ssl-cert-reqs=2", "use --client-certificate none, optional or required"),
        ("--ssl-version=5", "use --tls-minimum 1.2 or 1.3"),
        ("--http=2", "--alpn and --h2c select HTTP/2"),
        ("--ssl-ciphers=TLSv1", "leave it out: only secure cipher suites are offered"),
    ],
)
def test_options_of_other_servers(flag: str, instead: str) -> None:
    assert instead in mistake(flag)


def test_validity() -> None:
    def at(*when: int) -> float:
        return datetime.datetime(*when, tzinfo=datetime.UTC).timestamp()  # type: ignore[arg-type]

    first, last = at(2026, 1, 1), at(2026, 3, 1, 12)
    assert validity(first, last, at(2026, 1, 2)) == ""
    assert validity(first, last, at(2026, 2, 20)) == "expires on 2026-03-01 12:00 UTC; renew it"
    assert validity(first, last, at(2026, 3, 2)).startswith("expired on 2026-03-01 12:00 UTC; ")
    assert validity(first, last, at(2025, 12, 31)).startswith("is valid only from 2026-01-01 ")


@pytest.mark.slow
def test_key_material_is_in_no_message(
    start: Start, authority: Authority, files: Files, tmp_path: Path
) -> None:
    """Every line of a key, and its password, is looked for in all that is written."""
    secrets = [line for line in files.key.read_text().splitlines() if "-----" not in line]
    assert len(secrets) > 1
    password = tmp_path / "password"
    password.write_text("correct-horse-battery")
    secrets.append("correct-horse-battery")
    good = files.key.read_text()
    seen = []
    lines = good.splitlines()
    for broken in (
        good.replace("A", "B"),
        "\n".join([lines[0], lines[1], "!" + lines[2], *lines[3:]]),
        "\n".join([lines[0], *lines[2:]]),
        good.replace("-----END", "----END"),
        good.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"),
        "\n".join(lines[1:]),
    ):
        files.key.write_text(broken)
        options = [*files.options, "--key-password-file", str(password), "--log-level", "debug"]
        seen.append(mistake(*options))
    files.key.write_text(good)
    server = start("basic.py", *files.options, "--log-level", "debug")
    with SecureConnection(server, authority.client()) as connection:
        assert connection.get("/").status == 200
    files.key.write_text(good.replace("A", "B"))
    server.wait_line("remain in use")
    seen += server.lines
    seen.append(Path(f"/proc/{server.pid}/cmdline").read_text())
    seen.append(Path(f"/proc/{server.pid}/environ").read_text())
    for secret in secrets:
        assert not any(secret in text for text in seen)
