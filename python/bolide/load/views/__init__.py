"""The same figures in the formats of other tools, so that programs which parse these can read them.

Every view is made from Bolide's own report: a rate counts verified responses only, even if the tool
itself counts every response. `docs/load.md` lists where a field's meaning differs.
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
