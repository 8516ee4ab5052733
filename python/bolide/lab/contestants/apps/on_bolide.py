"""The content from Bolide's own framework."""

from bolide import App
from content import CONTENT, TARGET

app = App()
TEXT = CONTENT.decode()


@app.get(TARGET)
def hello(request):
    """Answer."""
    return TEXT
