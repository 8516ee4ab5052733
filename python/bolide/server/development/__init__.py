"""What `--reload` needs: a process that watches files, and what is served of a broken application.

`selection.py` says which files count, `watcher.py` is the process, `watch.py` is how the supervisor
sees it, `unfit.py` responds while an application cannot be served.
"""
