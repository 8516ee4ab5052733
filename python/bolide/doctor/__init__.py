"""`bolide doctor`: which settings of the machine limit an HTTP server, and which have no effect.

`catalogue.toml` describes the kernel settings, and `rule.py` decides when one of them is a limit.
The other checks examine what is not a kernel setting. `examination.py` runs them all. It writes
nothing unless the user asks for it (`session.py`).
"""
