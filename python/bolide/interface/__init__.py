"""The interfaces that an application may speak: what the server holds of it."""
