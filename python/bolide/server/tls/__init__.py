"""The certificates of a server: read, noticed when they change, and carried to the workers."""
