"""What a race writes down: the schema, the file, the machine, and whether a race may be resumed."""
