"""What carries a plan's requests besides HTTP: TLS below it, WebSocket after it."""
