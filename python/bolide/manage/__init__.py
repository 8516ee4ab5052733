"""The commands that talk to a running server: `bolide status`, `reload`, `stop` and `top`.

`command.py` declares them, `client.py` makes the requests to the management listener, `view.py`
and `rates.py` turn what it responds into text. Nothing of the server is imported.
"""
