"""The interfaces that an application may speak: which one it is, and what the server holds of it.

`recognition.py` tells them apart; each interface but the native one, which is `bolide.web`, has a
module that gives an application its lifespan and the core what it serves. `mounted.py` does it for
a native application with others below its prefixes. `bolide.server.lifespan` runs the startup and
shutdown of any.
"""

from bolide.interface.recognition import Application, application

__all__ = ["Application", "application"]
