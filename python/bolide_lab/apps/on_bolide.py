"""The content from Bolide's own framework."""

import itertools
import os

from content import CONTENT, TARGET

from bolide import App, Response

app = App()
TEXT = CONTENT.decode()
NUMBERS = itertools.count()


def hello(request):
    """Return the content."""
    return TEXT


def numbered(request):
    """Return the content with a field that differs in every response."""
    return Response(text=TEXT, headers={"X-Number": str(next(NUMBERS))})


app.add_route(TARGET, numbered if os.environ.get("RACE_NUMBERED") else hello)
