"""Load generators: how each is started, and what its output means.

There is one file per tool; `load.py` has their input and output, `tool.py` what they share. No rate
is used as a tool prints it: rates count correct responses only. What an output hides (error pages
counted as success, dropped samples, lost connections) is in `Reading.remarks`. Nothing here starts
a load; `bolide.lab.trial` does.
"""

from bolide.lab.tools.ab import Ab
from bolide.lab.tools.bolide import Bolide
from bolide.lab.tools.bombardier import Bombardier
from bolide.lab.tools.h2load import H2load
from bolide.lab.tools.hey import Hey
from bolide.lab.tools.hold import Hold
from bolide.lab.tools.load import Load, Reading
from bolide.lab.tools.oha import Oha
from bolide.lab.tools.tool import Tool, ToolError
from bolide.lab.tools.webbench import Webbench
from bolide.lab.tools.wrk import Wrk

__all__ = ["TOOLS", "Load", "Reading", "Tool", "ToolError", "find"]

TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (Bolide(), Ab(), Wrk(), Webbench(), Oha(), H2load(), Hey(), Bombardier(), Hold())
}
"""Every tool by name."""


def find(name: str) -> Tool:
    """Return the tool of a name.

    Raises:
        ToolError: there is none.
    """
    if name not in TOOLS:
        raise ToolError(f"no tool is called {name!r}; there are {', '.join(TOOLS)}")
    return TOOLS[name]
