"""`make audit`: what fails, what is skipped, and that it says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

AUDIT = Path(__file__).parents[2] / "release" / "audit.py"
CRATES = "crates: licenses, sources, duplicates"
ADVISORIES = "crates: vulnerabilities"
PACKAGES = "packages: vulnerabilities"
SAFE = {"name": "click", "version": "8.1", "vulns": []}
VULNERABLE = {"name": "click", "version": "8.1", "vulns": [{"id": "PYSEC-1"}, {"id": "PYSEC-2"}]}
UNKNOWN = {"name": "click", "skip_reason": "Dependency not found on PyPI"}
EDITABLE = {"name": "bolide", "skip_reason": "distribution marked as editable"}


def fake(folder: Path, name: str, script: str) -> None:
    """Write a program for the PATH."""
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def audit(folder: Path, *words: str) -> tuple[int, list[str]]:
    """Run the audit with the fakes only; return its exit code and lines."""
    done = subprocess.run(
        [sys.executable, AUDIT, folder, *words],
        env={"PATH": f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin"},
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def fake_deny(folder: Path, script: str) -> None:
    """Let `cargo deny --locked WORDS` run a script, in which $* is WORDS."""
    fake(folder, "cargo-deny", "exit 9")
    fake(folder, "cargo", f"shift 2\n{script}")


def fake_pip_audit(folder: Path, *packages: object) -> None:
    """Let pip-audit report packages."""
    fake(folder, "pip-audit", f"echo '{json.dumps({'dependencies': packages})}'")


def test_everything_is_right(tmp_path: Path) -> None:
    fake_deny(tmp_path, "true")
    fake_pip_audit(tmp_path, SAFE, EDITABLE)
    passed = [f"{each}: passed" for each in (CRATES, ADVISORIES, PACKAGES)]
    assert audit(tmp_path, "--strict") == (0, passed)


@pytest.mark.parametrize(("words", "code"), [([], 0), (["--strict"], 1)])
def test_tools_that_are_missing(tmp_path: Path, words: list[str], code: int) -> None:
    deny = "skipped: cargo-deny is not installed: cargo install --locked cargo-deny"
    skipped = [
        f"{CRATES}: {deny}",
        f"{ADVISORIES}: {deny}",
        f"{PACKAGES}: skipped: pip-audit is not installed",
    ]
    assert audit(tmp_path, *words) == (code, skipped)


def test_what_only_tests_and_tools_need_is_no_failure(tmp_path: Path) -> None:
    fake_deny(tmp_path, "true")
    fake_pip_audit(tmp_path, SAFE, VULNERABLE | {"name": "Flask"})
    code, lines = audit(tmp_path, "--strict")
    assert code == 0
    assert "only tests and tools need Flask 8.1: PYSEC-1, PYSEC-2" in lines
    assert lines[-1] == f"{PACKAGES}: passed"


def test_what_a_dependency_needs_is_needed(tmp_path: Path) -> None:
    for name, requires in (
        ("click", "Inner; python_version > '3'"),
        ("inner", "other; extra == 'x'"),
    ):
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        fields = (
            "Metadata-Version: 2.1",
            f"Name: {name}",
            "Version: 1",
            f"Requires-Dist: {requires}",
        )
        (folder / "METADATA").write_text("\n".join(fields))
    fake_deny(tmp_path, "true")
    fake_pip_audit(tmp_path, VULNERABLE | {"name": "Inner"}, VULNERABLE | {"name": "other"})
    code, lines = audit(tmp_path)
    assert code == 1
    assert lines[-3:] == [
        "only tests and tools need other 8.1: PYSEC-1, PYSEC-2",
        f"{PACKAGES}: FAILED",
        "  Inner 8.1: PYSEC-1, PYSEC-2",
    ]


def test_data_that_cannot_be_had(tmp_path: Path) -> None:
    fake_deny(tmp_path, 'test "$1" = fetch && echo "no such host" >&2 && exit 1\nexit 0')
    fake_pip_audit(tmp_path, SAFE, UNKNOWN)
    expected = [
        f"{CRATES}: passed",
        f"{ADVISORIES}: skipped: the database cannot be fetched: no such host",
        f"{PACKAGES}: skipped: this index has no vulnerability data for 1 of 2 packages",
    ]
    assert audit(tmp_path) == (0, expected)


def test_an_index_that_does_not_respond(tmp_path: Path) -> None:
    fake(tmp_path, "pip-audit", "echo 'connection refused' >&2; exit 1")
    code, lines = audit(tmp_path)
    assert (code, lines[-1]) == (
        0,
        f"{PACKAGES}: skipped: pip-audit could not ask the index: connection refused",
    )


@pytest.mark.parametrize(
    ("refused", "failed"), [("licenses", CRATES), ("check advisories", ADVISORIES)]
)
def test_crates_that_are_refused(tmp_path: Path, refused: str, failed: str) -> None:
    script = f'case "$*" in *"{refused}"*) echo "error[rejected]" >&2; exit 4;; esac'
    fake_deny(tmp_path, script)
    fake_pip_audit(tmp_path, SAFE)
    code, lines = audit(tmp_path)
    assert code == 1
    assert lines[lines.index(f"{failed}: FAILED") + 1] == "error[rejected]"


def test_packages_with_vulnerabilities(tmp_path: Path) -> None:
    fake_pip_audit(tmp_path, VULNERABLE, UNKNOWN)
    code, lines = audit(tmp_path)
    assert (code, lines[-2:]) == (1, [f"{PACKAGES}: FAILED", "  click 8.1: PYSEC-1, PYSEC-2"])
