"""The applications that `bolide race` measures: sources in Python, PHP, Go, Rust and JavaScript.

A distribution of its own, `bolide-lab`, which `bolide[lab]` requires in its own version: who only
serves does not install them. Nothing here is imported by Bolide.
"""
