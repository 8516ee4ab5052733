// The content from Node's http2, and from its http by ALPN: node_http2.js HOST PORT CERTIFICATE KEY.
const fs = require("node:fs");
const http2 = require("node:http2");

const content = Buffer.from(process.env.RACE_CONTENT);
const target = process.env.RACE_TARGET;
const [host, port, certificate, key] = process.argv.slice(2);

const options = { allowHTTP1: true, cert: fs.readFileSync(certificate), key: fs.readFileSync(key) };
const server = http2.createSecureServer(options);

function responseTo(path) {
  const isFound = path === target;
  const body = isFound ? content : Buffer.from("Not Found");
  return [isFound ? 200 : 404, body];
}

server.on("stream", (stream, fields) => {
  const [status, body] = responseTo(fields[":path"]);
  stream.respond({ ":status": status, "content-type": "text/plain", "content-length": body.length });
  stream.end(body);
});
server.on("request", (request, response) => {
  if (request.httpVersionMajor === 2) return; // the stream has its response
  const [status, body] = responseTo(request.url);
  response.writeHead(status, { "Content-Type": "text/plain", "Content-Length": body.length });
  response.end(body);
});
server.keepAliveTimeout = 600000;
server.listen({ host, port: Number(port), backlog: 4096 });
