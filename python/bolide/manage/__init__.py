"""The commands about a running server: `bolide status`, `reload`, `upgrade`, `stop` and `top`.

`command.py` declares them, `client.py` makes the requests to the management listener, `view.py`
and `rates.py` turn what it responds into text. Nothing of the server is imported.
"""
