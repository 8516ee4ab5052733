"""A Flask application that responds with 13 bytes."""

from flask import Flask

app = Flask(__name__)


@app.get("/")
def hello() -> str:
    """Respond with 13 bytes."""
    return "Hello, World!"
