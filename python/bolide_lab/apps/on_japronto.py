"""The content from Japronto, `on_japronto.py HOST PORT`. It runs on CPython 3.7."""

import itertools
import os
import sys

from content import CONTENT, TARGET
from japronto import Application

TEXT = CONTENT.decode()
NUMBERS = itertools.count()


def hello(request):
    """Return the content."""
    return request.Response(text=TEXT)


def numbered(request):
    """Return the content with a field that differs in every response."""
    return request.Response(text=TEXT, headers={"X-Number": str(next(NUMBERS))})


app = Application()
app.router.add_route(TARGET, numbered if os.environ.get("RACE_NUMBERED") else hello)
app.run(host=sys.argv[1], port=int(sys.argv[2]), worker_num=1)
