"""The interfaces of applications: detects which one an application has, and adapts it.

`recognition.py` detects the interface. Each interface except the native one, which is `bolide.web`,
has a module that runs an application's lifespan and returns what the core serves. `mounted.py` does
so for a native application with others mounted on it. `bolide.server.lifespan` runs the startup and
shutdown of all of them.
"""

from bolide.interface.recognition import Application, application

__all__ = ["Application", "application"]
