"""An application that cannot start."""

from bolide import App

app = App()


@app.on_startup
async def connect() -> None:
    """Fail the way a hook does whose database is away."""
    raise RuntimeError("no database")
