"""Writes the wheel of `bolide-lab`: what `bolide race` measures, for every machine and Python.

It has sources only, so nothing is built. Two runs write the same bytes: each job of a release makes
this wheel, and one of them is published.
"""

from __future__ import annotations

import base64
import hashlib
import tomllib
import zipfile
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

PACKAGE = "bolide_lab"
DISTRIBUTION = "bolide-lab"
FILE_MODE = 0o100644 << 16
"""The mode of a file in a zip archive."""
METADATA = """\
Metadata-Version: 2.4
Name: {name}
Version: {version}
Summary: The applications that `bolide race` measures.
License-Expression: MIT
License-File: LICENSE
Requires-Python: >=3.11
Author: Bolide contributors
Classifier: Development Status :: 3 - Alpha
Classifier: Intended Audience :: Developers
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3 :: Only
Classifier: Topic :: System :: Benchmark
{urls}Description-Content-Type: text/markdown

# bolide-lab

The applications that `bolide race` measures, in Python, PHP, Go, Rust and JavaScript.
`pip install 'bolide[lab]'` installs them in Bolide's version.
"""
WHEEL = """\
Wheel-Version: 1.0
Generator: bolide
Root-Is-Purelib: true
Tag: py3-none-any
"""


def build(tree: Path, out: Path) -> Path:
    """Write the wheel of a copy of the sources into a folder; return its path.

    Raises: ValueError if the extra of pyproject.toml requires another version.
    """
    project = tomllib.loads((tree / "pyproject.toml").read_text())["project"]
    version = _version(tree, project["optional-dependencies"]["lab"])
    urls = "".join(f"Project-URL: {each}, {url}\n" for each, url in project.get("urls", {}).items())
    wheel = out / f"{PACKAGE}-{version}-py3-none-any.whl"
    info = f"{PACKAGE}-{version}.dist-info"
    folder = tree / "python" / PACKAGE
    files = {
        path.relative_to(tree / "python").as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".pyc"
    }
    files[f"{info}/METADATA"] = METADATA.format(
        name=DISTRIBUTION, version=version, urls=urls
    ).encode()
    files[f"{info}/WHEEL"] = WHEEL.encode()
    files[f"{info}/licenses/LICENSE"] = (tree / "LICENSE").read_bytes()
    record = f"{info}/RECORD"
    files[record] = "".join([*map(_row, files, files.values()), f"{record},,\n"]).encode()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = FILE_MODE
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return wheel


def _version(tree: Path, extra: list[str]) -> str:
    """Return the workspace's version in the form of PEP 440, which the extra has to require."""
    workspace = tomllib.loads((tree / "Cargo.toml").read_text())["workspace"]
    version = Version(workspace["package"]["version"])
    required = [Requirement(each) for each in extra]
    if not any(str(each) == f"{DISTRIBUTION}=={version}" for each in required):
        raise ValueError(f"pyproject.toml: bolide[lab] does not require {DISTRIBUTION}=={version}")
    return str(version)


def _row(name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"
