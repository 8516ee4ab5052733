"""Commands that are imported when they are asked for: `command.py` has their group."""
