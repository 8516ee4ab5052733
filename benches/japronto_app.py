"""The same 13 bytes from Japronto 0.1.2. Runs on CPython 3.7: nothing newer in here."""

import itertools
import sys

from japronto import Application

NUMBERS = itertools.count()


def hello(request):
    """Respond with 13 bytes."""
    return request.Response(text="Hello, World!")


def numbered(request):
    """Respond with the same bytes and a field that is another each time."""
    return request.Response(text="Hello, World!", headers={"X-Number": str(next(NUMBERS))})


app = Application()
app.router.add_route("/", hello)
app.router.add_route("/numbered", numbered)
app.run(host="127.0.0.1", port=int(sys.argv[1]), worker_num=1)
