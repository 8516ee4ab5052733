"""What keeps a study data: the programs that it may name, and texts in files of servers.

A study may come from somebody else. It names applications of the laboratory, and nothing in it
becomes a command or a setting of a server.
"""

from __future__ import annotations

import re

from bolide.lab.folders import APPS
from bolide.lab.plan.contestant import Contestant
from bolide.lab.record.schema import Workload

COMPANION = re.compile(r"[a-z_]+\.py")
APPLICATION = re.compile(r"([a-z_]+(?:\.[a-z_]+)*):[A-Za-z]\w*")
QUOTED = '"{content}"'
"""How files of servers contain the content of a response, unless it is the whole file."""
UNSAFE_CONTENT = re.compile(r'["\\${}]|[^\n -\x7e\u00a0-\U0010ffff]')
"""What would end the quotes, or be replaced, in one of these files."""
SAFE_TARGET = re.compile(r"/[\w.~/%&=?+,:@!*-]*", re.ASCII)
"""What is a single word, without variables, in all of them."""


def refusal(workload: Workload) -> str:
    """Return why a workload's programs are not the laboratory's own; "" if they are."""
    name = workload.companion
    if name and not (COMPANION.fullmatch(name) and (APPS / name).is_file()):
        return f"companion {name!r} is not the name of a file in the laboratory's applications"
    if workload.app and not _has_application(workload.app):
        return f"app {workload.app!r} is not module:attribute of the laboratory's applications"
    return ""


def _has_application(app: str) -> bool:
    found = APPLICATION.fullmatch(app)
    return found is not None and (APPS / f"{found[1].replace('.', '/')}.py").is_file()


def unwritable(contestant: Contestant, workload: Workload) -> str:
    """Return why a workload cannot be written into the contestant's files; "" if it can."""
    texts = contestant.files.values()
    target = contestant.entry.target or workload.target
    if any("{target}" in each for each in texts) and not SAFE_TARGET.fullmatch(target):
        return "its configuration file cannot have this target"
    is_quoted = any(QUOTED in each and each != QUOTED for each in texts)
    if is_quoted and UNSAFE_CONTENT.search(workload.content or ""):
        return "its configuration file cannot have this content"
    return ""
