"""The front end of `bolide load`: from command-line options to a plan, from a report to a page.

The engine is `bolide._core.Load`; nothing here sends a byte. Read `command.py` for the command,
`flags.py` for its flags, `options.py` for the options of a run, `plan.py` for the input of the
engine, `run.py` for one run, and `summary.py`, `record.py` and `views` for the output.
"""
