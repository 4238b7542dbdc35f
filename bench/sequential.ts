/**
 * One connection, one request at a time: `bun bench/sequential.ts PORT PATH MILLISECONDS`, body on stdin, key in
 * BENCH_KEY. Written on a plain socket so that the client's own cost, which is in every number, stays small; wrk
 * corrects its percentiles for coordinated omission, which is wrong for a client that really waits.
 */

import { quantile } from "./measure.ts";

export interface SequentialReport {
  requests: number;
  p50Ms: number;
  p99Ms: number;
}

const [, , portText = "", path = "/", forText = "1000"] = process.argv;
const body = await Bun.stdin.text();
const request = Buffer.from(
  `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1:${portText}\r\nauthorization: Bearer ${process.env.BENCH_KEY}\r\n` +
    `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
);
const WARM_UP_REQUESTS = 50;
const tookMs: number[] = [];
const deadlineMs = performance.now() + Number(forText);
let begunMs = 0;
let received = "";

function isWhole(response: string): boolean {
  const headEnd = response.indexOf("\r\n\r\n");
  if (headEnd < 0) return false;
  const length = /\r\ncontent-length: *(\d+)/i.exec(response.slice(0, headEnd))?.[1];
  return length === undefined
    ? response.endsWith("0\r\n\r\n")
    : response.length >= headEnd + 4 + Number(length);
}

function finish(): never {
  const counted = tookMs.slice(WARM_UP_REQUESTS);
  const report: SequentialReport = {
    requests: counted.length,
    p50Ms: quantile(counted, 0.5),
    p99Ms: quantile(counted, 0.99),
  };
  console.log(JSON.stringify(report));
  process.exit(0);
}

function fail(reason: string): never {
  console.error(reason);
  process.exit(1);
}

await Bun.connect({
  hostname: "127.0.0.1",
  port: Number(portText),
  socket: {
    open(socket) {
      begunMs = performance.now();
      socket.write(request);
    },
    data(socket, chunk) {
      received += chunk.toString("latin1");
      if (!isWhole(received)) return;
      const nowMs = performance.now();
      if (!received.startsWith("HTTP/1.1 200")) fail(`expected 200, got: ${received.slice(0, 500)}`);
      tookMs.push(nowMs - begunMs);
      received = "";
      if (nowMs > deadlineMs) finish();
      begunMs = performance.now();
      socket.write(request);
    },
    close: () => fail("the connection was closed"),
    error: (_, error) => fail(String(error)),
  },
});
