/**
 * Opens many connections that send and read nothing. A separate process, so that the attack does not delay the
 * measurement. Prints a line when everything that the gateway accepts is sent, and runs until it is killed.
 */

import { parseArgs } from "node:util";

const { values } = parseArgs({
  options: {
    port: { type: "string" },
    connections: { type: "string" },
    first: { type: "string", default: "" },
    more: { type: "string", default: "" },
    bytes: { type: "string", default: "0" },
  },
});
const connections = Number(values.connections);
const rest = values.more === "" ? Buffer.alloc(0) : Buffer.alloc(Number(values.bytes), values.more);
const message = Buffer.concat([Buffer.from(values.first), rest]);
const AT_ONCE = 250;

interface Sent {
  bytes: number;
}

function send(socket: Bun.Socket<Sent>): void {
  const { data } = socket;
  const sent = data.bytes < message.length ? socket.write(message, data.bytes) : 0;
  if (sent > 0) data.bytes += sent;
}

async function open(): Promise<void> {
  await Bun.connect<Sent>({
    hostname: "127.0.0.1",
    port: Number(values.port),
    socket: {
      open(socket) {
        socket.data = { bytes: 0 };
        socket.pause();
        send(socket);
      },
      drain: send,
      data() {},
      error() {},
      connectError() {},
    },
  }).catch(() => {});
}

for (let opened = 0; opened < connections; opened += AT_ONCE) {
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, connections - opened) }, open));
}
console.log("sent");
await Bun.sleep(60_000);
process.exit(0);
