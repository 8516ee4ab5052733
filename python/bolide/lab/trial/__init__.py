"""One trial of a race: the server is started, verified, loaded, watched and ended."""
