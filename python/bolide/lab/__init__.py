"""The laboratory: what proves the server's claims from outside.

It starts every server, ours too, as a command, and imports nothing of the server's shell.
"""
