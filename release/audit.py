"""Checks what Bolide depends on: licenses and origins of crates, and known vulnerabilities.

cargo-deny reads deny.toml, pip-audit the environment that tests run in. A check whose tool or whose
data cannot be had is skipped with the reason, because a mirror may not carry the data; `--strict`
makes that a failure.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


class SkippedError(Exception):
    """A check could not be made; its text says why, and what would help."""


class FailedError(Exception):
    """A check found something; its text is what."""


def main() -> int:
    """Run the three checks; return 1 if one failed, or was skipped with --strict."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packages", type=Path, help="the environment's site-packages")
    parser.add_argument("--strict", action="store_true", help="a skipped check is a failure")
    arguments = parser.parse_args()
    checks = {
        "crates: licenses, sources, duplicates": check_crates,
        "crates: vulnerabilities": check_advisories,
        "packages: vulnerabilities": lambda: check_packages(arguments.packages),
    }
    is_bad = False
    for name, check in checks.items():
        try:
            check()
        except SkippedError as reason:
            print(f"{name}: skipped: {reason}")
            is_bad = is_bad or arguments.strict
        except FailedError as found:
            print(f"{name}: FAILED\n{found}")
            is_bad = True
        else:
            print(f"{name}: passed")
    return int(is_bad)


def check_crates() -> None:
    """Compare the crates with deny.toml.

    Raises: SkippedError, FailedError.
    """
    done = deny("check", "bans", "licenses", "sources")
    if done.returncode:
        raise FailedError(done.stderr)


def check_advisories() -> None:
    """Look for the crates in RustSec's database.

    Raises: SkippedError, FailedError.
    """
    fetched = deny("fetch", "db")
    if fetched.returncode:
        lines = fetched.stderr.strip().splitlines() or ["cargo deny fetch db failed"]
        raise SkippedError(f"the database cannot be fetched: {lines[-1]}")
    done = deny("check", "advisories")
    if done.returncode:
        raise FailedError(done.stderr)


def check_packages(site_packages: Path) -> None:
    """Look for the installed packages in the index's list of vulnerabilities.

    Raises: SkippedError, FailedError.
    """
    program = shutil.which("pip-audit")
    if program is None:
        raise SkippedError("pip-audit is not installed")
    words = ["--format", "json", "--progress-spinner", "off", "--skip-editable"]
    done = subprocess.run(
        [program, "--path", site_packages, *words], capture_output=True, text=True, cwd=ROOT
    )
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except ValueError:
        lines = done.stderr.strip().splitlines() or ["no output"]
        raise SkippedError(f"pip-audit could not ask the index: {lines[-1]}") from None
    found = [
        f"  {each['name']} {each['version']}: {', '.join(one['id'] for one in each['vulns'])}"
        for each in packages
        if each.get("vulns")
    ]
    if found:
        raise FailedError("\n".join(found))
    unknown = [
        each["name"]
        for each in packages
        if "not found" in each.get("skip_reason", "")  # pip-audit's own: Bolide is skipped, too
    ]
    if unknown:
        number = f"{len(unknown)} of {len(packages)} packages"
        raise SkippedError(f"this index has no vulnerability data for {number}")


def deny(*words: str) -> subprocess.CompletedProcess[str]:
    """Run cargo-deny.

    Raises: SkippedError: it is not installed.
    """
    if shutil.which("cargo-deny") is None:
        raise SkippedError("cargo-deny is not installed: cargo install --locked cargo-deny")
    command = ["cargo", "deny", "--locked", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


if __name__ == "__main__":
    sys.exit(main())
