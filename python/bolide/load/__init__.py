"""The front of `bolide load`: from what a user types to a plan, and from a report to a page.

The engine is `bolide._core.Load`; nothing here sends a byte. Read `command.py` for the flags,
`options.py` for what they mean together, `plan.py` for what the engine is told, `run.py` for one
run, and `summary.py`, `record.py` and `views` for what is printed.
"""
