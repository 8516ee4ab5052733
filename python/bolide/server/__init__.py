"""The server's processes: the supervisor and its workers, listeners, imports and logs.

`supervisor.py` starts the workers (`worker.py`), `service.py` serves one application in one running
loop, and `embedded.py` is `bolide.Server`, which does so without a process of its own. This
package imports nothing itself: `import bolide` must not load asyncio.
"""
