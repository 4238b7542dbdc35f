/** 2,000 randomly mutated requests: each connection ends with valid responses, and the gateway survives. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { limits } from "../../src/config/limits/product-limits.ts";
import { seeded } from "../../src/pool/pool.test-support.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { chatBody, get, post, postChunked } from "./messages.ts";
import { openRawClient } from "./raw-client.ts";

const MUTANTS = 2_000;
/** Most of the time is spent waiting for the server's timeouts. */
const AT_ONCE = 200;
const SEED = 20_261_115;

let gateway: RunningGateway;

beforeAll(async () => {
  gateway = await startTestGateway({
    models: { fast: "sim-fast", stream: "sim-fast@events=3" },
    limits: {
      bodyIdleTimeoutMs: 200,
      badKeyTriesPerMinute: 1_000_000,
      connections: { ...limits.connections, headMs: 200, idleMs: 200, lingerMs: 200, checkMs: 20 },
    },
  });
});

afterAll(() => gateway.stop());

const random = seeded(SEED);
const below = (count: number) => Math.floor(random() * count);

const BODY = chatBody();
const GOOD: readonly Buffer[] = [
  get("/v1/models"),
  get("/healthz", "Connection: keep-alive", "X-A: b"),
  post(BODY),
  post(chatBody({ model: "stream", stream: true })),
  postChunked([BODY.slice(0, 20), BODY.slice(20)]),
  get("/healthz") + post(BODY) + get("/v1/models"),
].map((text) => Buffer.from(text));

/** Input that parsers commonly fail on. */
const TREATS = [
  "\r",
  "\n",
  "\r\n",
  "\r\n\r\n",
  "\0",
  " ",
  "\t",
  ":",
  ",",
  ";",
  "0",
  "-1",
  "ffffffffffffffff",
  "9".repeat(40),
  "\r\nContent-Length: 5",
  "\r\nTransfer-Encoding: chunked",
  "\r\nHost: y",
  "\r\nExpect: 100-continue",
  "\r\nConnection: close",
  "\r\nUpgrade: websocket\r\nConnection: upgrade",
  "HTTP/1.1",
  "HTTP/9.9",
  "0\r\n\r\n",
  "\u00ff",
  "x".repeat(5_000),
  "%00",
  "../",
  "*",
].map((text) => Buffer.from(text, "latin1"));

function mutated(from: Buffer): Buffer {
  const at = below(from.length);
  const to = Math.min(from.length, at + 1 + below(8));
  const treat = TREATS[below(TREATS.length)] ?? Buffer.alloc(0);
  const [before, cut, after] = [from.subarray(0, at), from.subarray(at, to), from.subarray(to)];
  switch (below(6)) {
    case 0:
      return Buffer.concat([before, after]);
    case 1:
      return Buffer.concat([before, cut, cut, after]);
    case 2:
      return Buffer.concat([before, treat, cut, after]);
    case 3:
      return Buffer.concat([before, treat, after]);
    case 4:
      return Buffer.concat([before, Buffer.from(cut.map(() => below(256))), after]);
    default:
      return before;
  }
}

interface Mutant {
  bytes: Buffer;
  cut: number;
}

function mutant(): Mutant {
  let bytes = GOOD[below(GOOD.length)] ?? Buffer.alloc(0);
  for (let times = 1 + below(3); times > 0 && bytes.length > 0; times--) bytes = mutated(bytes);
  return { bytes, cut: below(bytes.length + 1) };
}

/** The statuses of all responses until the end of the connection. */
async function outcome({ bytes, cut }: Mutant): Promise<number[]> {
  const client = await openRawClient(gateway.url);
  await client.sendPieces([bytes.subarray(0, cut), bytes.subarray(cut)]);
  const statuses: number[] = [];
  for (;;) {
    const next = await client.next();
    if (typeof next === "string") break;
    statuses.push(next.status);
    if (next.status === 101) break;
  }
  client.close("fin");
  return statuses;
}

test(`${MUTANTS} mutated requests get a response or a close, and the next valid request is served`, async () => {
  const mutants = Array.from({ length: MUTANTS }, mutant);
  const counts = new Map<number, number>();
  const takers = Array.from({ length: AT_ONCE }, async () => {
    for (let next = mutants.pop(); next !== undefined; next = mutants.pop()) {
      const { bytes } = next;
      const statuses = await outcome(next).catch((thrown: unknown) => {
        throw new Error(`${thrown}\nafter ${JSON.stringify(bytes.toString("latin1"))}`);
      });
      for (const status of statuses) {
        expect([status, bytes.toString("latin1")]).not.toEqual([500, bytes.toString("latin1")]);
        counts.set(status, (counts.get(status) ?? 0) + 1);
      }
    }
  });
  await Promise.all(takers);
  console.log(`statuses of ${MUTANTS} bent requests: ${JSON.stringify(Object.fromEntries(counts))}`);
  // Some were still valid, and some were not.
  expect(counts.get(200)).toBeGreaterThan(100);
  expect(counts.get(400)).toBeGreaterThan(100);

  const client = await openRawClient(gateway.url);
  await client.send(post(BODY) + get("/healthz"));
  expect((await client.readResponse()).status).toBe(200);
  expect((await client.readResponse()).status).toBe(200);
  client.close("fin");
  expect(gateway.log.filter((line) => line.includes('"level":"error"'))).toEqual([]);
});
