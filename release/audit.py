"""Checks what Bolide depends on: licenses and origins of crates, and known vulnerabilities.

cargo-deny reads deny.toml, pip-audit the environment that tests run in. What is found in a package
that only tests and tools need is reported, and is no failure: nobody gets it by installing Bolide.
A check whose tool or whose data cannot be had is skipped with the reason, because a mirror may not
carry the data; `--strict` makes that a failure.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import distributions
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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
    needed = required_by_bolide(site_packages)
    found = []
    for each in packages:
        if vulnerabilities := ", ".join(one["id"] for one in each.get("vulns", ())):
            line = f"{each['name']} {each['version']}: {vulnerabilities}"
            if canonicalize_name(each["name"]) in needed:
                found.append(f"  {line}")
            else:
                print(f"only tests and tools need {line}")
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


def required_by_bolide(site_packages: Path) -> set[str]:
    """Return the names of the packages that Bolide and its extras install, with what those need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    left = [Requirement(each) for each in chain(project["dependencies"], *extras)]
    installed = {
        canonicalize_name(each.name): each for each in distributions(path=[str(site_packages)])
    }
    needed: set[str] = set()
    while left:
        requirement = left.pop()
        name = canonicalize_name(requirement.name)
        if name in needed:
            continue
        needed.add(name)
        if name in installed:
            inner = [Requirement(each) for each in installed[name].requires or ()]
            left += [each for each in inner if each.marker is None or each.marker.evaluate()]
    return needed


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
