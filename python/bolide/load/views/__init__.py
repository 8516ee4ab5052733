"""The same figures in the words, units and order of other tools, so that their parsers read them.

Every view is made of Bolide's own report: a rate counts verified responses only, also where the
tool itself counts every response. `docs/load.md` says where a field's meaning had to be decided.
"""

from __future__ import annotations

from collections.abc import Callable

from bolide.load.views import ab, webbench, wrk
from bolide.load.views.run_result import RunResult

VIEWS: dict[str, Callable[[RunResult], str]] = {
    "ab": ab.page,
    "wrk": wrk.page,
    "webbench": webbench.page,
}
