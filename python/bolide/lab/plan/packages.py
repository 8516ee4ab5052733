"""Packages of the Linux distribution, which `bolide race setup --system` installs.

apt asks no questions, and no service is started or enabled: `policy-rc.d` refuses to start them
while apt-get runs, and services that a package enables are disabled again.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from bolide.lab.plan.contestant import Contestant
from bolide.lab.plan.environments import SetupError, find_program
from bolide.lab.tools import Tool

POLICY = Path("/usr/sbin/policy-rc.d")
"""invoke-rc.d asks this program before it starts a service; 101 means that it may not."""
ENABLED = Path("/etc/systemd/system")
"""Has a link NAME.wants/UNIT for each enabled unit."""
RUN_LEVELS = Path("/etc/rc2.d")
"""Has a link S01NAME for each service that the run level starts."""
QUIET = {"DEBIAN_FRONTEND": "noninteractive", "APT_LISTCHANGES_FRONTEND": "none"}
KEEP_SETTINGS = ("-o", "Dpkg::Options::=--force-confold")
"""A changed configuration file of the user's stays; apt-get asks otherwise."""


def lacks_packages(contestant: Contestant) -> bool:
    """Return whether a contestant needs a package that is not installed."""
    setup = contestant.setup
    return bool(setup.apt) and (
        any(find_program(name) is None for name in setup.programs)
        or any(not Path(path).exists() for path in setup.paths)
    )


def lacking(contestants: Iterable[Contestant], tools: Iterable[Tool]) -> list[str]:
    """Return the packages that these need and that are not installed."""
    found = {name for each in contestants if lacks_packages(each) for name in each.setup.apt}
    found |= {name for each in tools if each.version() is None for name in each.apt}
    return sorted(found)


def install(packages: Sequence[str], say: Callable[[str], None]) -> None:
    """Install packages; apt-get shows its progress on standard error.

    A package that this distribution does not have is reported and left out.

    Raises:
        SetupError: apt-get failed, or this system has none.
    """
    with suppress(SetupError):  # without a network, what was fetched earlier may be enough
        _apt("update")
    known = [name for name in packages if _is_known(name)]
    for name in sorted(set(packages) - set(known)):
        say(f"{name}: this distribution has no package of that name")
    if not known:
        return
    before = _enabled()
    try:
        with _no_service_starts(say):
            _apt("install", "--yes", *KEEP_SETTINGS, "--no-install-recommends", *known)
    finally:
        _disable(sorted(_enabled() - before), say)


def _apt(*words: str) -> None:
    try:
        done = subprocess.run(  # noqa: S603 - the command that was shown
            ["apt-get", *words],  # noqa: S607 - the system's
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            env={**os.environ, **QUIET},
            check=False,
        )
    except OSError as error:
        raise SetupError(f"cannot run apt-get: {error.strerror}") from None
    if done.returncode:
        raise SetupError(f"apt-get {words[0]} failed; it needs root (sudo)")


def _is_known(name: str) -> bool:
    """Return whether apt has a package of this name; True if that is unknown."""
    program = shutil.which("apt-cache")
    if program is None:
        return True
    command = [program, "show", "--no-all-versions", name]
    done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - a name
    return done.returncode == 0


@contextmanager
def _no_service_starts(say: Callable[[str], None]) -> Iterator[None]:
    """Refuse to start services, unless the system has a policy of its own."""
    try:
        POLICY.touch(mode=0o755, exist_ok=False)
    except FileExistsError:
        yield
        return
    except OSError as error:
        say(f"cannot write {POLICY} ({error.strerror}): services of the packages may be started")
        yield
        return
    try:
        POLICY.write_text("#!/bin/sh\nexit 101\n", encoding="utf-8")
        yield
    finally:
        POLICY.unlink(missing_ok=True)


def _enabled() -> set[str]:
    """Return the services that the system starts by itself."""
    units = {path.name for path in ENABLED.glob("*.wants/*")}
    scripts = {re.sub(r"^S\d\d", "", path.name) for path in RUN_LEVELS.glob("S[0-9][0-9]*")}
    return units | {f"{name}.service" for name in scripts}


def _disable(units: Sequence[str], say: Callable[[str], None]) -> None:
    """Disable services that an installation has enabled."""
    for unit in units:
        script = unit.removesuffix(".service")
        commands = (["systemctl", "disable", unit], ["update-rc.d", script, "disable"])
        for command in commands:
            if shutil.which(command[0]):
                subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - unit names
        said = "is disabled again" if unit not in _enabled() else "is enabled; disable it"
        say(f"{unit}: a package enabled this service, which {said}")
