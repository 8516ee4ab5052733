"""Removes the machine's folders from the output of servers and tools before it is recorded.

The last output of a server has paths: the trial's folder, environments, a home. Results are
published, and must not identify their author. Control characters become escapes.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from bolide.lab.folders import APPS, LABORATORY, cache_folder
from bolide.lab.record.schema import Trial
from bolide.lab.visible import visible

TRIAL_PREFIX = "bolide-race-"
"""Prefix of the name of a trial's folder."""


def redacted(trial: Trial, application: Path | None = None) -> Trial:
    """Return the trial without paths in its failure and its evidence.

    `application` is the folder of the user's own application.
    """
    places = _places(application)
    failure = trial.failure
    if failure is not None:
        message = visible(without_paths(failure.message, places))
        failure = msgspec.structs.replace(failure, message=message)
    evidence = [visible(without_paths(text, places)) for text in trial.evidence]
    return msgspec.structs.replace(trial, failure=failure, evidence=evidence)


def redacted_text(text: str) -> str:
    """Return a text without paths."""
    return without_paths(text, _places(None))


def without_paths(text: str, places: Mapping[str, str]) -> str:
    """Replace folders by names; the deepest folder first, whole path segments only."""
    trials = re.escape(f"{tempfile.gettempdir()}/{TRIAL_PREFIX}")
    text = re.sub(rf"{trials}[\w-]+", "{folder}", text)
    for folder in sorted(places, key=len, reverse=True):
        text = re.sub(rf"(?<![\w.-]){re.escape(folder)}(?![\w-])", places[folder], text)
    return text


def _places(application: Path | None) -> dict[str, str]:
    """Return the names of folders; if two are the same folder, the later name applies."""
    named = [
        (Path.home(), "~"),
        (application, "{application}"),
        (Path(sys.prefix), "{environment}"),
        (cache_folder(), "{cache}"),
        (LABORATORY, "{laboratory}"),
        (APPS, "{apps}"),
    ]
    found = {}
    for folder, name in named:
        if folder is not None and folder.is_absolute():
            for path in (folder, folder.resolve()):
                if len(path.parts) > 1:  # the root is a part of every path
                    found[str(path)] = name
    return found
