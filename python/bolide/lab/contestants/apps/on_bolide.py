"""The content from Bolide's own framework."""

import itertools
import os

from content import CONTENT, TARGET

from bolide import App, Response

app = App()
TEXT = CONTENT.decode()
NUMBERS = itertools.count()


def hello(request):
    """Answer."""
    return TEXT


def numbered(request):
    """Answer with a field that is another each time."""
    return Response(text=TEXT, headers={"X-Number": str(next(NUMBERS))})


app.add_route(TARGET, numbered if os.environ.get("RACE_NUMBERED") else hello)
