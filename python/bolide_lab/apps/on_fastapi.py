"""The content from FastAPI."""

from content import CONTENT, TARGET
from fastapi import FastAPI
from fastapi.responses import PlainTextResponse

app = FastAPI()


@app.get(TARGET, response_class=PlainTextResponse)
async def hello():
    """Return the content."""
    return PlainTextResponse(CONTENT)
