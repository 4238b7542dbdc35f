/**
 * A WebSocket client in a separate process: `bun bench/socket-load.ts URL SOCKETS MILLISECONDS HOW`, with the message
 * of a turn on stdin and the keys, one a line, in BENCH_KEYS. It opens that many sockets and prints a line; then it
 * sends one turn after another for that long, on all of them at once or one after the other. Without a message, it waits
 * until it is ended. The result is one line of JSON.
 */

import { quantile } from "./measure.ts";

export interface SocketReport {
  turns: number;
  p50Ms: number;
  p99Ms: number;
}

const [, , url = "", socketsText = "1", forText = "1000", how = "all at once"] = process.argv;
const message = await Bun.stdin.text();
const keys = (process.env.BENCH_KEYS ?? "").split("\n");
const sockets = Number(socketsText);
/** More at once only wait: one listening socket takes them in. */
const OPENING_AT_ONCE = 100;

function fail(reason: string): never {
  console.error(reason);
  process.exit(1);
}

function open(i: number): Promise<WebSocket> {
  const socket = new WebSocket(url, {
    headers: { authorization: `Bearer ${keys[i % keys.length]}` },
  });
  socket.onclose = ({ code, reason }) => fail(`socket ${i} was closed: ${code} ${reason}`);
  return new Promise((resolve) => {
    socket.onopen = () => resolve(socket);
  });
}

/** Gives the time that the turn took. */
function turn(socket: WebSocket): Promise<number> {
  return new Promise((resolve) => {
    const begunMs = performance.now();
    socket.onmessage = ({ data }) => {
      const text: string = data;
      if (text.startsWith('{"type":"error"')) fail(text);
      if (text.startsWith('{"type":"response.completed"')) resolve(performance.now() - begunMs);
    };
    socket.send(message);
  });
}

async function allAtOnce(opened: readonly WebSocket[], forMs: number): Promise<number[]> {
  const untilMs = performance.now() + forMs;
  const tookMs: number[] = [];
  const askOn = async (socket: WebSocket) => {
    // Real sockets do not begin in step.
    await Bun.sleep(Math.random() * opened.length);
    while (performance.now() < untilMs) tookMs.push(await turn(socket));
  };
  await Promise.all(opened.map(askOn));
  return tookMs;
}

/** One turn at a time, each on the next socket: none of them is taken for one that floods. */
async function oneByOne(opened: readonly WebSocket[], forMs: number): Promise<number[]> {
  for (const socket of opened) await turn(socket);
  const untilMs = performance.now() + forMs;
  const tookMs: number[] = [];
  for (;;) {
    for (const socket of opened) {
      if (performance.now() > untilMs) return tookMs;
      tookMs.push(await turn(socket));
    }
  }
}

const opened: WebSocket[] = [];
while (opened.length < sockets) {
  const batch = Math.min(OPENING_AT_ONCE, sockets - opened.length);
  opened.push(...(await Promise.all(Array.from({ length: batch }, (_, i) => open(opened.length + i)))));
}
console.log(JSON.stringify({ open: opened.length }));

if (message !== "") {
  const tookMs = await (how === "one by one" ? oneByOne : allAtOnce)(opened, Number(forText));
  if (tookMs.length === 0) fail("No turn was completed.");
  const report: SocketReport = {
    turns: tookMs.length,
    p50Ms: quantile(tookMs, 0.5),
    p99Ms: quantile(tookMs, 0.99),
  };
  console.log(JSON.stringify(report));
  process.exit(0);
}
