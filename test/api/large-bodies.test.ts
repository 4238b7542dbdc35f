/** Large bodies through the running gateway: together they use no more memory than their budget. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { startSimulator } from "../../simulator/simulator.ts";
import { limits } from "../../src/config/limits/product-limits.ts";
import { signInAs } from "../support/console-client.ts";
import { expectRejection } from "../support/error-envelope.ts";
import { eventually } from "../support/eventually.ts";
import { startGatewayProcess } from "../support/gateway-process.ts";
import { bill, PRICE, startPaidGateway } from "../support/paid-gateway.ts";
import {
  gatewayFile,
  OTHER_KEY,
  type RunningGateway,
  startTestGateway,
  TEST_KEY,
} from "../support/running-gateway.ts";
import { readResidentBytes } from "../support/spawned-gateway.ts";
import { openSocketClient } from "../support/turn-client.ts";

const MiB = 1024 * 1024;
const ROOM_MIB = 8;
const CHAT = "/v1/chat/completions";

let gateway: RunningGateway;

beforeAll(async () => {
  gateway = await startTestGateway({
    models: {
      "fast-chat": "sim-fast",
      sleeper: "fault/blackhole",
      shattered: "fault/500",
      torn: "fault/cut",
    },
    largeBodiesMib: ROOM_MIB,
    limits: { largeBodies: { ...limits.largeBodies, waitTimeoutMs: 1_500 } },
  });
});

afterAll(() => gateway.stop());

function chatBody(bytes: number, model = "fast-chat", more: object = {}): Buffer {
  const text = JSON.stringify({ model, messages: [{ role: "user", content: "HERE" }], ...more });
  return Buffer.from(text.replace("HERE", "x".repeat(bytes - text.length + 4)));
}

/** Has the same length and compresses to about a half. */
function looseBody(bytes: number): Buffer {
  const body = chatBody(bytes);
  const text = randomBytes(bytes / 4).toString("hex");
  body.write(text, body.indexOf("xxxx"));
  return body;
}

interface LargeBodies {
  held_bytes: number;
  bytes_max: number;
  waiting: number;
  refused: number;
}

/** As the dashboard reports it. */
async function largeBodies({ url, installation }: Pick<RunningGateway, "url" | "installation">) {
  const admin = await signInAs({ url, installation }, "root@example.com", "admin");
  const leave = new AbortController();
  const response = await admin.fetch("/api/admin/dashboard/live", { signal: leave.signal });
  const frame = await response.body?.getReader().read();
  leave.abort();
  const firstBytes = new TextDecoder().decode(frame?.value).replace(/^data: /, "");
  return (JSON.parse(firstBytes) as { large_bodies: LargeBodies }).large_bodies;
}

const isEmpty = async (of: Pick<RunningGateway, "url" | "installation"> = gateway) =>
  eventually(async () => {
    const { held_bytes, waiting } = await largeBodies(of);
    return held_bytes === 0 && waiting === 0;
  });

/** Occupies this much of the memory budget until it is released. */
async function hold(bytes: number, key = TEST_KEY): Promise<{ letGo(): void }> {
  const heldBytes = async () => (await largeBodies(gateway)).held_bytes;
  const before = await heldBytes();
  const leave = new AbortController();
  const held = gateway.call(CHAT, chatBody(bytes, "sleeper"), {
    signal: leave.signal,
    headers: { authorization: `Bearer ${key}` },
  });
  held.catch(() => {});
  await eventually(async () => (await heldBytes()) === before + bytes);
  return { letGo: () => leave.abort() };
}

test("a large body without free memory in time gets 503 with Retry-After; small ones are served", async () => {
  const held = [await hold(4 * MiB), await hold(4 * MiB, OTHER_KEY)];
  const refused = await gateway.call(CHAT, chatBody(2 * MiB));
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
  const error = await expectRejection(refused, 503);
  expect(error).toMatchObject({ code: "no_room_for_body", type: "service_unavailable_error" });
  expect((await gateway.call(CHAT, chatBody(1 * MiB))).status).toBe(200);
  for (const { letGo } of held) letGo();
  expect((await gateway.call(CHAT, chatBody(2 * MiB))).status).toBe(200);
  await isEmpty();
  expect((await largeBodies(gateway)).refused).toBe(1);
});

test("a large body waits unread for free memory, and is then served", async () => {
  const held = [await hold(4 * MiB), await hold(4 * MiB, OTHER_KEY)];
  const { port } = new URL(gateway.url);
  const body = chatBody(3 * MiB);
  let received = "";
  const socket = connect(Number(port), "127.0.0.1");
  socket.on("data", (part) => {
    received += part.toString();
  });
  socket.write(
    `POST ${CHAT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${TEST_KEY}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nExpect: 100-continue\r\n\r\n`,
  );
  await eventually(async () => (await largeBodies(gateway)).waiting, { equals: 1 });
  expect(received).toBe("");
  held[0]?.letGo();
  await eventually(() => received.startsWith("HTTP/1.1 100 Continue\r\n\r\n"));
  socket.write(body);
  await eventually(() => received.includes("HTTP/1.1 200 OK"));
  socket.destroy();
  held[1]?.letGo();
  await isEmpty();
});

test("a client that disconnects while it waits releases its place in the queue", async () => {
  const held = [await hold(4 * MiB), await hold(4 * MiB, OTHER_KEY)];
  const { port } = new URL(gateway.url);
  const socket = connect(Number(port), "127.0.0.1");
  socket.write(
    `POST ${CHAT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${TEST_KEY}\r\nContent-Type: application/json\r\nContent-Length: ${3 * MiB}\r\n\r\n{`,
  );
  await eventually(async () => (await largeBodies(gateway)).waiting, { equals: 1 });
  const { refused } = await largeBodies(gateway);
  socket.destroy();
  await eventually(async () => (await largeBodies(gateway)).waiting, { equals: 0 });
  expect((await largeBodies(gateway)).refused).toBe(refused);
  for (const { letGo } of held) letGo();
  await isEmpty();
});

test("one user cannot occupy the whole memory budget", async () => {
  const held = await hold(4 * MiB);
  await expectRejection(await gateway.call(CHAT, chatBody(2 * MiB)), 503);
  const other = { headers: { authorization: `Bearer ${OTHER_KEY}` } };
  expect((await gateway.call(CHAT, chatBody(2 * MiB), other)).status).toBe(200);
  held.letGo();
  await isEmpty();
});

test("many concurrent large bodies all get a response, and all memory is released", async () => {
  const kinds = [
    { body: () => chatBody(3 * MiB), expected: [200, 503] },
    { body: () => chatBody(3 * MiB, "fast-chat", { stream: true }), expected: [200, 503] },
    { body: () => chatBody(3 * MiB, "torn", { stream: true }), expected: [200, 502, 503] },
    { body: () => chatBody(3 * MiB, "shattered"), expected: [502, 503] },
    { body: () => chatBody(3 * MiB, "nobody"), expected: [404, 503] },
    { body: () => Buffer.alloc(3 * MiB, "{"), expected: [400, 503] },
    { body: () => gzipSync(looseBody(3 * MiB)), expected: [200, 503], encoding: "gzip" },
    { body: () => Buffer.alloc(2 * MiB, "x"), expected: [400, 503], encoding: "gzip" },
    { body: () => gzipSync(Buffer.alloc(65 * MiB)), expected: [413, 503], encoding: "gzip" },
    { body: () => chunked(chatBody(3 * MiB)), expected: [200, 503] },
  ];
  const asked = Array.from({ length: 6 }, (_, round) =>
    kinds.map(async ({ body, expected, encoding }) => {
      const key = round % 2 === 0 ? TEST_KEY : OTHER_KEY;
      const response = await fetch(`${gateway.url}${CHAT}`, {
        method: "POST",
        body: body(),
        headers: {
          authorization: `Bearer ${key}`,
          "content-type": "application/json",
          ...(encoding === undefined ? {} : { "content-encoding": encoding }),
        },
      });
      await response.text();
      expect(expected).toContain(response.status);
      return response.status;
    }),
  ).flat();
  const leaving = Array.from({ length: 10 }, async (_, index) => {
    const leave = new AbortController();
    const endless = chunked(chatBody(3 * MiB, "sleeper"), index * 100_000, () => leave.abort());
    await gateway.call(CHAT, endless as unknown as Uint8Array, { signal: leave.signal }).catch(() => {});
  });
  const statuses = await Promise.all(asked);
  await Promise.all(leaving);
  expect(statuses).toContain(200);
  expect(statuses).toContain(503);
  await isEmpty();
  expect((await gateway.call(CHAT, chatBody(ROOM_MIB * MiB))).status).toBe(200);
});

/** In chunks without a length. `stopped` is called after this many bytes, and then nothing more is sent. */
function chunked(body: Buffer, stopAfter = body.length, stopped = () => {}): ReadableStream<Uint8Array> {
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at >= body.length) return controller.close();
      if (at >= stopAfter) return stopped();
      controller.enqueue(body.subarray(at, at + 100_000));
      at += 100_000;
    },
  });
}

test("a WebSocket turn uses the memory budget too, and is rejected if it is exhausted", async () => {
  const client = await openSocketClient(gateway.url);
  const input = "x".repeat(2 * MiB);
  expect((await client.turn({ model: "fast-chat", input })).last.type).toBe("response.completed");
  await isEmpty();
  const held = [await hold(4 * MiB), await hold(4 * MiB, OTHER_KEY)];
  const { last } = await client.turn({ model: "fast-chat", input });
  expect(last).toMatchObject({ type: "error", status: 503, error: { code: "no_room_for_body" } });
  expect((await client.turn({ model: "fast-chat", input: "short" })).last.type).toBe("response.completed");
  for (const { letGo } of held) letGo();
  await isEmpty();
  expect((await client.turn({ model: "fast-chat", input })).last.type).toBe("response.completed");
  client.close();
  await isEmpty();
});

test("a paid background request holds its memory until it has ended", async () => {
  const paid = await startPaidGateway({ balance: "100.00", models: { paid: "sim-fast" } });
  try {
    const input = "hello ".repeat(400_000);
    const response = await paid.call("/v1/responses", { model: "paid", input, background: true });
    expect(response.status).toBe(200);
    expect((await largeBodies(paid)).held_bytes).toBeGreaterThan(input.length);
    const row = await paid.records.row(response.headers.get("x-request-id") ?? "");
    expect(row.chargedNano).toBe(
      bill([
        [row.inputTokens, PRICE.input],
        [row.outputTokens, PRICE.output],
      ]),
    );
    await isEmpty(paid);
  } finally {
    await paid.stop();
  }
});

test("the memory of the process is bounded for any number of concurrent bodies", async () => {
  const folder = mkdtempSync(join(tmpdir(), "model-gateway-test-"));
  const simulator = startSimulator({ seed: 1 });
  const models = { slow: "sim-fast@first=300ms" };
  await Bun.write(
    join(folder, "gateway.yaml"),
    `server: { large_bodies_mib: 128 }\n${gatewayFile({ models })}`,
  );
  const own = await startGatewayProcess({
    folder,
    args: ["--config", "gateway.yaml"],
    env: { SIMULATOR_URL: simulator.url },
  });
  try {
    const body = chatBody(16 * MiB, "slow");
    const atRest = readResidentBytes(own.pid);
    let most = 0;
    const looking = setInterval(() => {
      most = Math.max(most, readResidentBytes(own.pid));
    }, 20);
    const statuses = await Promise.all(
      Array.from({ length: 24 }, async (_, index) => {
        const key = index % 2 === 0 ? TEST_KEY : OTHER_KEY;
        const response = await fetch(`${own.url}${CHAT}`, {
          method: "POST",
          body,
          headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        });
        await response.text();
        return response.status;
      }),
    );
    clearInterval(looking);
    console.log(`24 bodies of 16 MiB: the gateway takes ${((most - atRest) / 1e6).toFixed(0)} MB for them`);
    expect(new Set([...statuses, 200, 503])).toEqual(new Set([200, 503]));
    expect(statuses).toContain(200);
    expect(most - atRest).toBeLessThan(2 * 128 * MiB);
  } finally {
    await own.stop();
    await simulator.stop();
    rmSync(folder, { recursive: true, force: true });
  }
});
