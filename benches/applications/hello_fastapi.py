"""A FastAPI application that responds with 13 bytes, the way its documents show."""

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse

app = FastAPI()


@app.get("/", response_class=PlainTextResponse)
async def hello() -> str:
    """Respond with 13 bytes."""
    return "Hello, World!"
