"""TLS in a plan: which certificates are trusted and presented."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from bolide.errors import ConfigError
from bolide.load.destination import Destination
from bolide.load.options import Options

SYSTEM_AUTHORITIES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Arch, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, RHEL
    "/etc/ssl/ca-bundle.pem",  # openSUSE
    "/etc/ssl/cert.pem",  # BSD, macOS
)
"""Where distributions keep the authorities that the system trusts, in one file."""
_FLAGS = {
    "is_insecure": "--insecure",
    "authorities": "--cacert",
    "certificate": "--cert",
    "key": "--key",
    "resumes": "--no-resumption",
    "tls_min": "--tls-min",
    "tls_max": "--tls-max",
}


def of(options: Options, destination: Destination) -> dict[str, Any] | None:
    """Return the plan's `tls`; None for a URL without https.

    Raises:
        ConfigError: two options contradict each other, or no authority is known.
    """
    if not destination.is_secure:
        for name, flag in _FLAGS.items():
            if getattr(options, name) != Options.__dataclass_fields__[name].default:
                raise ConfigError(f"{flag} is for https; {destination.url} is not")
        return None
    if options.is_insecure and options.authorities:
        raise ConfigError("--insecure verifies nothing; leave out --cacert")
    if options.key and not options.certificate:
        raise ConfigError("--key is the key of a certificate; give --cert as well")
    if options.tls_min > options.tls_max:
        raise ConfigError(f"--tls-min {options.tls_min} is above --tls-max {options.tls_max}")
    certificate = options.certificate
    return {
        "server_name": destination.name,
        "authorities": None if options.is_insecure else str(options.authorities or _system()),
        "pair": (str(certificate), str(options.key or certificate)) if certificate else None,
        "is_resumed": options.resumes,
        "version_min": options.tls_min,
        "version_max": options.tls_max,
    }


def _system() -> Path:
    """Return the file of the authorities that the system trusts."""
    named = os.environ.get("SSL_CERT_FILE")
    for text in (named,) if named else SYSTEM_AUTHORITIES:
        if Path(text).is_file():
            return Path(text)
    raise ConfigError(
        f"no file of trusted authorities {named or 'on this machine'}; give one with --cacert, "
        "or --insecure to verify nothing"
    )
