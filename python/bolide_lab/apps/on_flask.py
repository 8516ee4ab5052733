"""The content from Flask."""

from content import CONTENT, TARGET
from flask import Flask, Response

app = Flask(__name__)


@app.get(TARGET)
def hello():
    """Return the content."""
    return Response(CONTENT, mimetype="text/plain")
