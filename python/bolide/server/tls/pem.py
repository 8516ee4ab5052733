"""What a file contains in the place of a certificate or a key, for messages about mistakes.

It looks at labels (RFC 7468) and first bytes only, and quotes nothing of the file.
"""

from __future__ import annotations

PKCS12 = b"\x02\x01\x03"
"""The version with which PKCS #12 starts, in DER (RFC 7292 section 4)."""
SEQUENCE = b"\x30"
NEW_KEY = (
    "`openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key.pem` makes one that "
    "is, for which you need a new certificate"
)
"""What to do about a key that cannot be used."""
WANTED = {"key": "private key", "client_crl": "revocation list"}
FILES = {"certificate": "cert.pem", "client_ca": "ca.pem", "client_crl": "crl.pem"}
COMMANDS = {"key": "pkey", "client_crl": "crl"}


def remedy(option: str, content: bytes) -> str:
    """Return what a file without a certificate, or without a key, contains, and what to do.

    The text continues a sentence that starts with the file's path.
    """
    wanted = WANTED.get(option, "certificate")
    if not content.strip():
        return f"is empty; give the file with the {wanted}"
    if b"-----BEGIN " not in content:
        return _binary(option, content, wanted)
    if option == "key" and b"-----BEGIN DSA PRIVATE KEY-----" in content:
        return "has a key for DSA, which is not usable; " + NEW_KEY
    if option == "key" and b"-----BEGIN CERTIFICATE-----" in content:
        return "has a certificate and no private key; give the file with its private key"
    if option == "client_crl" and b"-----BEGIN CERTIFICATE-----" in content:
        return f"has a certificate and no {wanted}; give the file with the {wanted}"
    if b"PRIVATE KEY-----" in content and option != "key":
        return f"has a private key and no {wanted}; give the file with the {wanted}"
    if b"-----BEGIN TRUSTED CERTIFICATE-----" in content and option != "client_crl":
        name = FILES.get(option, "cert.pem")
        return f"is in a form of OpenSSL's own; `openssl x509 -in FILE -out {name}` converts it"
    if b"CERTIFICATE REQUEST-----" in content:
        return "has a request for a certificate; give the certificate that the authority issued"
    if b"-----BEGIN PUBLIC KEY-----" in content:
        return f"has a public key and no {wanted}; give the file with the {wanted}"
    return f"has no {wanted} in PEM; give the file with it"


def _binary(option: str, content: bytes, wanted: str) -> str:
    name = FILES.get(option, "key.pem")
    if not content.startswith(SEQUENCE):
        return f"has no {wanted} in PEM; give the file with it"
    # A length of up to five bytes follows the tag.
    if PKCS12 in content[2:9]:
        part = "-nocerts -nodes" if option == "key" else "-nokeys"
        return f"is PKCS #12; `openssl pkcs12 -in FILE {part} -out {name}` converts it"
    command = COMMANDS.get(option, "x509")
    return (
        f"has no {wanted} in PEM; `openssl {command} -inform der -in FILE -out {name}` converts DER"
    )
