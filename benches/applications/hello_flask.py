"""A Flask application that answers with 13 bytes."""

from flask import Flask

app = Flask(__name__)


@app.get("/")
def hello() -> str:
    """Answer with 13 bytes."""
    return "Hello, World!"
