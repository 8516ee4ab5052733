// The content from Node's http2 and, by ALPN, from its http: node_http2.js HOST PORT CERTIFICATE KEY.
const fs = require("node:fs");
const http = require("node:http");
const http2 = require("node:http2");
const tls = require("node:tls");

const content = Buffer.from(process.env.RACE_CONTENT);
const target = process.env.RACE_TARGET;
const [host, port, certificate, key] = process.argv.slice(2);

function responseTo(path) {
  const isFound = path === target;
  const body = isFound ? content : Buffer.from("Not Found");
  return [isFound ? 200 : 404, body];
}

// With a listener of "request", http2 makes objects of its compatibility layer for each stream, so http has a server of its own.
const second = http2.createServer();
second.on("stream", (stream, fields) => {
  const [status, body] = responseTo(fields[":path"]);
  stream.respond({ ":status": status, "content-type": "text/plain", "content-length": body.length });
  stream.end(body);
});
const first = http.createServer((request, response) => {
  const [status, body] = responseTo(request.url);
  response.writeHead(status, { "Content-Type": "text/plain", "Content-Length": body.length });
  response.end(body);
});
first.keepAliveTimeout = 600000;

const options = {
  ALPNProtocols: ["h2", "http/1.1"],
  cert: fs.readFileSync(certificate),
  key: fs.readFileSync(key),
  noDelay: true,
};
const server = tls.createServer(options, (socket) => {
  (socket.alpnProtocol === "h2" ? second : first).emit("connection", socket);
});
server.listen({ host, port: Number(port), backlog: 4096 });
