"""Options: one table that flags, variables, files and keywords are made from, and their values."""
