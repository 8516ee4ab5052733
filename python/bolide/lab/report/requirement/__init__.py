"""What the contestants of a study must reach: whether they do, and the table of it."""
