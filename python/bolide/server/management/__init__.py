"""The management listener: metrics, health and commands, served by the supervisor itself.

So it responds while every worker is occupied. `listening.py` has the connections, in the
supervisor's own loop and without a thread; `request.py` says what is allowed; `counts.py` adds up
what the workers count; `exposition.py` writes it as text; `pages.py` says what is at which path.
"""
