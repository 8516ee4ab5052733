"""The content from Robyn; its port comes from ROBYN_PORT, its processes from its own flags."""

import os

from content import CONTENT, TARGET
from robyn import Robyn

app = Robyn(__file__)
TEXT = CONTENT.decode()


@app.get(TARGET)
async def hello(request):
    """Return the content."""
    return TEXT


app.start(host=os.environ["ROBYN_HOST"], port=int(os.environ["ROBYN_PORT"]))
