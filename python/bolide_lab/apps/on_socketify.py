"""The content from socketify's own framework: `on_socketify.py HOST PORT`."""

import sys

from content import CONTENT, TARGET
from socketify import App, AppListenOptions

TEXT = CONTENT.decode()


def hello(response, request):
    """Send the content."""
    response.write_header("Content-Type", "text/plain").end(TEXT)


def missing(response, request):
    """Send 404 for any other path."""
    response.write_status(404).end("Not Found")


app = App()
app.get(TARGET, hello)
app.any("/*", missing)
app.listen(AppListenOptions(port=int(sys.argv[2]), host=sys.argv[1]), lambda config: None)
app.run()
