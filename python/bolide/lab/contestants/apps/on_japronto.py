"""The content from Japronto, `on_japronto.py HOST PORT`. Runs on CPython 3.7: nothing newer."""

import itertools
import os
import sys

from content import CONTENT, TARGET
from japronto import Application

TEXT = CONTENT.decode()
NUMBERS = itertools.count()


def hello(request):
    """Answer."""
    return request.Response(text=TEXT)


def numbered(request):
    """Answer with a field that is another each time."""
    return request.Response(text=TEXT, headers={"X-Number": str(next(NUMBERS))})


app = Application()
app.router.add_route(TARGET, numbered if os.environ.get("RACE_NUMBERED") else hello)
app.run(host=sys.argv[1], port=int(sys.argv[2]), worker_num=1)
