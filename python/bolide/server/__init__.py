"""The server as processes: the supervisor, its workers, what they listen on, load and log.

`supervisor.py` starts the workers (`worker.py`), `service.py` serves one application in one running
loop, and `embedded.py` is `bolide.Server`, which does that without a process of its own. This
package imports nothing itself: `import bolide` must not load asyncio.
"""
