"""What `--debug` shows of an exception, and the applications around applications that show it.

`disclosure.py` says to whom, `page.py` is what is shown; `asgi.py`, `wsgi.py` and `native.py` show
it.
"""
