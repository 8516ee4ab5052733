"""The same 13 bytes from Japronto 0.1.2. Runs on CPython 3.7: nothing newer in here."""

import sys

from japronto import Application


def hello(request):
    """Answer with 13 bytes."""
    return request.Response(text="Hello, World!")


app = Application()
app.router.add_route("/", hello)
app.run(host="127.0.0.1", port=int(sys.argv[1]), worker_num=1)
