// The content from Node's http: node_http.js HOST PORT.
const http = require("node:http");

const content = Buffer.from(process.env.RACE_CONTENT);
const target = process.env.RACE_TARGET;

const server = http.createServer((request, response) => {
  const isFound = request.url === target;
  const body = isFound ? content : Buffer.from("Not Found");
  response.writeHead(isFound ? 200 : 404, {
    "Content-Type": "text/plain",
    "Content-Length": body.length,
  });
  response.end(body);
});
server.keepAliveTimeout = 600000;
server.listen({ host: process.argv[2], port: Number(process.argv[3]), backlog: 4096 });
