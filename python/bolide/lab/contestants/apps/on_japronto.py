"""The content from Japronto, `on_japronto.py HOST PORT`. Runs on CPython 3.7: nothing newer."""

import sys

from content import CONTENT, TARGET
from japronto import Application

TEXT = CONTENT.decode()


def hello(request):
    """Answer."""
    return request.Response(text=TEXT)


app = Application()
app.router.add_route(TARGET, hello)
app.run(host=sys.argv[1], port=int(sys.argv[2]), worker_num=1)
