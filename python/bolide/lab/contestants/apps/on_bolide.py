"""The content from Bolide's own framework."""

from content import CONTENT, TARGET

from bolide import App

app = App()
TEXT = CONTENT.decode()


@app.get(TARGET)
def hello(request):
    """Answer."""
    return TEXT
