"""The content from http.server with a thread per connection: `plain_http.py HOST PORT [BACKLOG]`.

Nothing is logged and TCP_NODELAY is set, as in the document that measures this server.
"""

import http.server
import socket
import sys

from content import CONTENT, NOT_FOUND, TARGET


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves GET."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_GET(self):
        """Send the content."""
        is_found = self.path == TARGET
        content = CONTENT if is_found else NOT_FOUND
        self.send_response(200 if is_found else 404)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *words):
        """Log nothing."""


class Server(http.server.ThreadingHTTPServer):
    """One process, a thread for each connection."""

    request_queue_size = int(sys.argv[3]) if len(sys.argv) > 3 else 4096


server = Server((sys.argv[1], int(sys.argv[2])), Handler)
server.socket.setsockopt(socket.SOL_TCP, socket.TCP_NODELAY, True)
server.serve_forever()
