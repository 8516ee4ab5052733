"""The laboratory: `bolide race`, which measures HTTP servers side by side.

It starts every server, Bolide's too, as a command, and imports nothing of the server.
"""
