// WebSockets from uWebSockets.js: on_uws.js HOST PORT. /echo sends a message back, /broadcast to all connections.
const uws = require("@btc-vision/uwebsockets.js");

const options = {
  compression: uws.SHARED_COMPRESSOR,
  maxPayloadLength: 16 * 1024 * 1024,
  idleTimeout: 120,
};

uws
  .App()
  .ws("/echo", {
    ...options,
    message: (socket, message, isBinary) => socket.send(message, isBinary, true),
  })
  .ws("/broadcast", {
    ...options,
    open: (socket) => socket.subscribe("all"),
    message: (socket, message, isBinary) => {
      socket.publish("all", message, isBinary);
      socket.send(message, isBinary);
    },
  })
  .any("/*", (response) => response.writeStatus("404").end())
  .listen(process.argv[2], Number(process.argv[3]), () => {});
