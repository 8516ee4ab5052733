"""What a race records: the schema, the file, the machine, and whether a race may be resumed."""
