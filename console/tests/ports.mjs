/** Ports for servers of the tests. */
import { createServer } from "node:net";

/**
 * The ports of this test file. They are below those that the system gives to outgoing connections, and other than those of a test file that
 * runs beside it: nothing takes a port between its choice and its use, nor while its engine is started again.
 */
const [FIRST, COUNT] = [11_000 + (process.pid % 1_000) * 20, 20];
let last = 0;

export async function freePort() {
  for (let nth = 0; nth < COUNT; nth += 1) {
    const port = FIRST + (last++ % COUNT);
    if (await isFree(port)) return port;
  }
  throw new Error(`no port from ${FIRST} on is free`);
}

function isFree(port) {
  return new Promise((done) => {
    const server = createServer();
    server.once("error", () => done(false));
    server.listen(port, "127.0.0.1", () => server.close(() => done(true)));
  });
}
