"""Options: one table from which flags, variables, keys and keywords derive, and their values."""
