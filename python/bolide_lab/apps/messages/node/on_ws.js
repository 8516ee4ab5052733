// WebSockets from ws: on_ws.js HOST PORT. /echo sends a message back, /broadcast to all connections.
const http = require("node:http");
const { WebSocketServer } = require("ws");

const options = { noServer: true, perMessageDeflate: { threshold: 0 } };
const echo = new WebSocketServer({ ...options, clientTracking: false });
const broadcast = new WebSocketServer(options);

echo.on("connection", (socket) => {
  socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary }));
});
broadcast.on("connection", (socket) => {
  socket.on("message", (data, binary) => {
    for (const each of broadcast.clients) each.send(data, { binary });
  });
});

const server = http.createServer((request, response) => response.writeHead(404).end());
server.on("upgrade", (request, socket, head) => {
  const found = { "/echo": echo, "/broadcast": broadcast }[request.url];
  if (!found) return socket.end("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  found.handleUpgrade(request, socket, head, (each) => found.emit("connection", each, request));
});
server.listen({ host: process.argv[2], port: Number(process.argv[3]), backlog: 4096 });
