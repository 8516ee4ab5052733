"""The folders of the laboratory: its own files, and where it installs contestants."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

APPS_PACKAGE = "bolide_lab"
"""The package of the distribution bolide-lab."""
LABORATORY = Path(__file__).parent
CONTESTANTS = LABORATORY / "contestants"
"""One TOML file for each server."""
USER_PACKAGES = CONTESTANTS / "user_packages"
"""Contains the sitecustomize that adds the packages of a user's application to a contestant's."""
STUDIES = LABORATORY / "studies"
"""One TOML file for each study."""


def _apps() -> Path:
    spec = find_spec(APPS_PACKAGE)
    folder = Path(spec.origin).parent if spec and spec.origin else LABORATORY
    return folder / "apps"


APPS = _apps()
"""The applications that the contestants serve; no folder without the distribution bolide-lab."""


def cache_folder() -> Path:
    """Return the folder that holds the environments of all contestants."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bolide" / "race"
