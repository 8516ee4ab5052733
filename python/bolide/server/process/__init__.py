"""What concerns the processes besides serving: when they are replaced, and what they get."""
