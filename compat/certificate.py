"""A certificate for the servers that the checks connect to over TLS."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path


def options(folder: Path) -> tuple[str, ...]:
    """Make a certificate for localhost in a folder; return the options that serve it."""
    openssl = shutil.which("openssl")
    if openssl is None:
        sys.exit("compat: checks over TLS need openssl")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    what = ("-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    name = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    files = ("-days", "2", "-keyout", str(key), "-out", str(certificate))
    subprocess.run([openssl, "req", *what, *name, *files], check=True, capture_output=True)
    return ("--certificate", str(certificate), "--key", str(key))
