"""The folders of the laboratory: its own files, and where it installs contestants."""

from __future__ import annotations

import os
from pathlib import Path

LABORATORY = Path(__file__).parent
CONTESTANTS = LABORATORY / "contestants"
"""One TOML file for each server."""
APPS = CONTESTANTS / "apps"
"""The applications that the contestants serve."""
USER_PACKAGES = CONTESTANTS / "user_packages"
"""Contains the sitecustomize that adds the packages of a user's application to a contestant's."""
STUDIES = LABORATORY / "studies"
"""One TOML file for each study."""


def cache_folder() -> Path:
    """Return the folder that holds the environments of all contestants."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bolide" / "race"
