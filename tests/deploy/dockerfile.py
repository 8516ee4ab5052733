"""What the Dockerfile builds and runs."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from dockerfile_parse import DockerfileParser

from deploy.files import CONTAINER


@dataclass
class Stage:
    """One stage of a build."""

    instructions: list[tuple[str, str]] = field(default_factory=list)

    def last(self, name: str) -> str:
        """Return the value of the last instruction of a name, which is the one that counts."""
        return [value for each, value in self.instructions if each == name][-1]

    def command(self) -> list[str]:
        """Return what a container runs, which is in the form without a shell."""
        words: list[str] = json.loads(self.last("CMD"))
        return words

    def health_command(self) -> list[str]:
        """Return the command of the check of health, in the same form."""
        words: list[str] = json.loads(re.split(r"\bCMD ", self.last("HEALTHCHECK"))[1])
        return words

    def environment(self) -> dict[str, str]:
        """Return the variables."""
        words = self.last("ENV").split()
        return dict(word.split("=", 1) for word in words)


def stages() -> list[Stage]:
    """Return the stages of the Dockerfile; the last one is the image."""
    parser = DockerfileParser(path=str(CONTAINER / "Dockerfile"), cache_content=True)
    found: list[Stage] = []
    for each in parser.structure:
        if each["instruction"] == "FROM":
            found.append(Stage())
        if each["instruction"] != "COMMENT":
            found[-1].instructions.append((each["instruction"], each["value"]))
    return found
