/** WebSocket connections: who may open one, and all the ways in which one ends. */

import { afterEach, describe, expect, test } from "bun:test";
import { revokeKey } from "../../src/store/policy/keys.ts";
import { expectEnvelope } from "../support/error-envelope.ts";
import { eventually, untilStill } from "../support/eventually.ts";
import { type RawHttpResponse, rawRequest, readHeader } from "../support/raw-http.ts";
import { openRawSocket } from "../support/raw-socket.ts";
import {
  type GatewayOptions,
  gatewayFile,
  OTHER_KEY,
  type RunningGateway,
  startTestGateway,
  TEST_KEY,
} from "../support/running-gateway.ts";
import { openSocketClient, type SocketClient } from "../support/turn-client.ts";

const MODELS = { fast: "sim-fast", held: "fault/stall@chunk6", long: "sim-fast@bytes=200000,events=400" };

let gateway: RunningGateway | null = null;
const clients: SocketClient[] = [];
afterEach(async () => {
  for (const client of clients.splice(0)) client.close();
  await gateway?.stop();
  gateway = null;
});

async function start(options: GatewayOptions = {}): Promise<RunningGateway> {
  gateway = await startTestGateway({ models: MODELS, ...options });
  return gateway;
}

async function open({ url }: RunningGateway, key = TEST_KEY): Promise<SocketClient> {
  const client = await openSocketClient(url, { key });
  clients.push(client);
  return client;
}

const UPGRADE = {
  authorization: `Bearer ${TEST_KEY}`,
  connection: "Upgrade",
  upgrade: "websocket",
  "sec-websocket-version": "13",
  "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
};

function upgrade(
  { url }: RunningGateway,
  headers: Readonly<Record<string, string | null>> = {},
  query = "",
): Promise<RawHttpResponse> {
  const lines = Object.entries({ ...UPGRADE, ...headers }).flatMap(([name, value]) =>
    value === null ? [] : [`${name}: ${value}\r\n`],
  );
  // A 101 response has no end, so the connection is closed.
  return rawRequest(url, `GET /v1/responses${query} HTTP/1.1\r\nhost: x\r\n${lines.join("")}\r\n`, (socket) =>
    socket.once("data", () => setImmediate(() => socket.destroy())),
  );
}

function rejection(response: RawHttpResponse, status: number): ReturnType<typeof expectEnvelope> {
  expect(response.status).toBe(status);
  return expectEnvelope(status, readHeader(response, "x-request-id"), response.body);
}

describe("an upgrade", () => {
  test("returns 101 with a request id and without extensions, for any query", async () => {
    const offered = { "sec-websocket-extensions": "permessage-deflate; client_max_window_bits" };
    const response = await upgrade(await start(), offered, "?model=fast");
    expect(response.status).toBe(101);
    expect(readHeader(response, "x-request-id")).toMatch(/^req_/);
    expect(readHeader(response, "sec-websocket-extensions")).toBeNull();
    expect(readHeader(response, "sec-websocket-protocol")).toBeNull();
  });

  test("without a key or with an invalid one returns 401", async () => {
    const running = await start();
    expect(rejection(await upgrade(running, { authorization: null }), 401).code).toBe("missing_api_key");
    expect(rejection(await upgrade(running, { authorization: "Bearer nobody" }), 401).code).toBe(
      "invalid_api_key",
    );
  });

  test.each([
    ["another version", { "sec-websocket-version": "8" }],
    ["no WebSocket key", { "sec-websocket-key": null }],
    ["another protocol", { upgrade: "h2c" }],
  ])("with %s returns 426 with the supported protocol", async (_, headers) => {
    const response = await upgrade(await start(), headers);
    expect(rejection(response, 426).code).toBe("upgrade_required");
    expect(readHeader(response, "upgrade")).toBe("websocket");
    expect(readHeader(response, "sec-websocket-version")).toBe("13");
  });

  test("returns 426 if the group disables WebSocket, so that Codex uses HTTP, until it is enabled", async () => {
    const file = (websocket: boolean) =>
      gatewayFile({ models: MODELS }).replace(
        "on_disconnect:",
        `websocket: ${websocket}\n    on_disconnect:`,
      );
    const running = await start({ file: file(false) });
    expect(rejection(await upgrade(running), 426).code).toBe("upgrade_required");
    await running.apply(file(true));
    await eventually(async () => (await upgrade(running)).status, { equals: 101 });
  });

  test("returns 426 if the group lacks the Responses interface, and the error names both transports", async () => {
    const file = gatewayFile({ models: MODELS }).replace(/(- name: default\n {4}interfaces: ).*/, "$1[chat]");
    expect(rejection(await upgrade(await start({ file })), 426)).toMatchObject({
      code: "upgrade_required",
      message: expect.stringContaining("over WebSocket or HTTP"),
    });
  });

  test("of a web page returns 403, unless its origin is allowed", async () => {
    const running = await start({ allowedOrigins: ["https://app.example.com"] });
    const stranger = await upgrade(running, { origin: "https://evil.example.com" });
    expect(rejection(stranger, 403).code).toBe("origin_not_allowed");
    expect((await upgrade(running, { origin: "https://app.example.com" })).status).toBe(101);
  });

  describe("of the gateway's own page", () => {
    const own = { origin: "http://x", authorization: null };
    const offering = (key: string) => `responses, gateway-key.${Buffer.from(key).toString("base64url")}`;

    test("sends its key as a subprotocol, which is never echoed", async () => {
      const running = await start();
      const response = await upgrade(running, { ...own, "sec-websocket-protocol": offering(TEST_KEY) });
      expect(response.status).toBe(101);
      expect(readHeader(response, "sec-websocket-protocol")).toBe("responses");
      const encoded = Buffer.from(TEST_KEY).toString("base64url");
      expect(running.log.join("\n")).not.toContain(encoded);
      expect(running.log.join("\n")).not.toContain(TEST_KEY);
    });

    test("returns 401 with an invalid key, which is not echoed", async () => {
      const response = await upgrade(await start(), { ...own, "sec-websocket-protocol": offering("nobody") });
      expect(rejection(response, 401).code).toBe("invalid_api_key");
      expect(response.body).not.toContain("nobody");
    });

    test("returns 403 for another origin", async () => {
      const stranger = { ...own, origin: "http://y", "sec-websocket-protocol": offering(TEST_KEY) };
      expect(rejection(await upgrade(await start(), stranger), 403).code).toBe("origin_not_allowed");
    });
  });

  test("a key in the subprotocols of a program is ignored", async () => {
    const protocol = `responses, gateway-key.${Buffer.from(TEST_KEY).toString("base64url")}`;
    const response = await upgrade(await start(), {
      authorization: null,
      "sec-websocket-protocol": protocol,
    });
    expect(rejection(response, 401).code).toBe("missing_api_key");
  });

  test("beyond the maximum per key returns 429 with Retry-After; other keys are not affected", async () => {
    const running = await start({ limits: { socketsPerKeyMax: 2 } });
    const first = await open(running);
    await open(running);
    const response = await upgrade(running);
    expect(rejection(response, 429).code).toBe("rate_limit_exceeded");
    expect(readHeader(response, "retry-after")).toBe("1");
    await open(running, OTHER_KEY);
    first.close();
    await eventually(async () => (await upgrade(running)).status, { equals: 101 });
  });
});

describe("a key that is revoked", () => {
  const revoke = async ({ installation }: RunningGateway) => {
    const [row] = await installation.db.sql`SELECT id FROM api_key WHERE name = 'test'`;
    await revokeKey(installation.db, String(row?.id), Date.now());
  };

  test("closes its idle connections with an error frame and 1008", async () => {
    const running = await start();
    const mine = await open(running);
    const other = await open(running, OTHER_KEY);
    await revoke(running);
    expect(await mine.closed).toMatchObject({ code: 1008 });
    expect(mine.events).toMatchObject([{ type: "error", status: 401, error: { code: "invalid_api_key" } }]);
    expect((await other.turn({ model: "fast", input: "Hi" })).last.type).toBe("response.completed");
  });

  test("is disconnected in the middle of a turn, and the upstream call is aborted", async () => {
    const running = await start();
    const client = await open(running);
    client.create({ model: "held", input: "Hi" });
    await client.until("response.output_text.delta");
    await revoke(running);
    expect(await client.closed).toMatchObject({ code: 1008 });
    expect(client.events.at(-1)).toMatchObject({ type: "error", status: 401 });
    await eventually(() => running.simulator.ledger.totals().inFlight, { equals: 0 });
  });

  test("or has expired gets the same close", async () => {
    const running = await start();
    const client = await open(running);
    const expires = new Date(Date.now() - 1_000).toISOString();
    await running.apply(
      gatewayFile({ models: MODELS }).replace("name: test,", `name: test, expires: ${expires},`),
    );
    expect(await client.closed).toMatchObject({ code: 1008 });
    expect(client.events).toMatchObject([
      { status: 401, error: { message: expect.stringContaining("expired") } },
    ]);
  });
});

describe("a connection past its maximum age", () => {
  test("gets an error and is closed when it is idle", async () => {
    const client = await open(await start({ limits: { socketAgeMs: 1 } }));
    expect(await client.closed).toMatchObject({ code: 1001 });
    expect(client.events).toMatchObject([
      { type: "error", status: 400, error: { code: "websocket_connection_limit_reached" } },
    ]);
  });

  test("finishes its turn first; waiting turns get an error", async () => {
    const running = await start({ limits: { socketAgeMs: 200, socketCheckIntervalMs: 10 } });
    running.simulator.force("stall@chunk6,1s", 1);
    const client = await open(running);
    client.create({ model: "fast", input: "Slow" });
    client.create({ model: "fast", input: "Waiting" });
    const events = await client.until("error");
    expect(events.at(-1)).toMatchObject({ error: { code: "websocket_connection_limit_reached" } });
    await client.until("response.completed");
    expect(await client.closed).toMatchObject({ code: 1001 });
  });
});

describe("a client over a limit", () => {
  test("with one large message gets an error, and the connection stays open", async () => {
    const client = await open(await start({ limits: { jsonBodyBytesMax: 10_000 } }));
    const { last } = await client.turn({ model: "fast", input: "x".repeat(20_000) });
    expect(last).toMatchObject({ status: 413, error: { code: "request_too_large" } });
    expect((await client.turn({ model: "fast", input: "Hi" })).last.type).toBe("response.completed");
  });

  test("with one much larger message is closed with 1009", async () => {
    const client = await open(await start({ limits: { jsonBodyBytesMax: 10_000 } }));
    client.create({ model: "fast", input: "x".repeat(2 ** 21) });
    expect(await client.closed).toMatchObject({ code: 1009 });
  });

  test("with a long conversation gets an error, although each message is short", async () => {
    const client = await open(await start({ limits: { jsonBodyBytesMax: 10_000 } }));
    const request = { model: "fast", store: false, input: "x".repeat(6_000) };
    const { responseId } = await client.turn(request);
    const second = await client.turn({ ...request, previous_response_id: responseId });
    expect(second.last).toMatchObject({ status: 413, error: { code: "request_too_large" } });
  });

  test("with too many messages per second gets errors, and abuse is closed with 1008", async () => {
    const running = await start({ limits: { socketMessagesPerSecondMax: 5 } });
    const client = await open(running);
    for (let i = 0; i < 6; i++) client.send("{}");
    await eventually(() => client.events.length, { equals: 6 });
    expect(client.events.map(({ status }) => status)).toEqual([400, 400, 400, 400, 400, 429]);
    for (let i = 0; i < 20; i++) client.send("{}");
    expect(await client.closed).toMatchObject({ code: 1008 });
    expect(running.simulator.ledger.totals().requests).toBe(0);
  });
});

test("a message over the rate limit gets an error on its own lane", async () => {
  const client = await open(await start({ limits: { socketMessagesPerSecondMax: 1 } }));
  for (const lane of ["a", "b"]) client.create({ model: "held", input: "Hi", stream_id: lane });
  expect((await client.until("error")).at(-1)).toMatchObject({
    status: 429,
    stream_id: "b",
    headers: { "retry-after": "1" },
  });
});

/** Waits until the upstream sends nothing more, and returns how many events it has sent. */
async function standstill({ simulator }: RunningGateway): Promise<number> {
  const sent = () => simulator.ledger.last()?.eventsSent ?? 0;
  await eventually(() => sent() > 0);
  return untilStill(sent, 100);
}

describe("a client", () => {
  test("that answers no ping is disconnected", async () => {
    const socket = await openRawSocket((await start({ limits: { socketIdleSeconds: 8 } })).url);
    expect(await socket.closed).toBeNull();
  });

  test("that does not read applies back-pressure, and loses nothing when it resumes", async () => {
    const running = await start({ models: { flood: "sim-fast@bytes=12000000,events=1200" } });
    const socket = await openRawSocket(running.url);
    const turn = (input: string) =>
      JSON.stringify({ type: "response.create", model: "flood", input, store: false });
    socket.pause();
    socket.send(turn("Hi"));
    const sentUnread = await standstill(running);
    expect(running.simulator.ledger.totals().inFlight).toBe(1);
    socket.resume();
    await eventually(() => socket.texts.at(-1)?.startsWith('{"type":"response.completed"') === true);
    // The last events each repeat the whole text, which is more than the buffers of the kernel hold.
    expect(sentUnread).toBeLessThan(running.simulator.ledger.last()?.eventsSent ?? 0);
    const numbers = socket.texts.map((text) => Number(/"sequence_number":(\d+)/.exec(text)?.[1]));
    expect(numbers).toEqual(numbers.map((_, i) => i));
    socket.destroy();
  });

  test("that reads slowly loses nothing when another of its turns is rejected", async () => {
    const running = await start({ models: { flood: "sim-fast@bytes=16000000,events=1" } });
    const socket = await openRawSocket(running.url);
    const turn = (fields: object) => JSON.stringify({ type: "response.create", input: "Hi", ...fields });
    socket.pause();
    socket.send(turn({ model: "flood" }));
    await standstill(running);
    socket.send(turn({ model: "nobody", stream_id: "a" }));
    socket.resume();
    const types = () => socket.texts.map((text) => /"type":"([^"]+)"/.exec(text)?.[1]);
    await eventually(() => types().includes("response.completed"));
    expect(types()).toContain("error");
    socket.destroy();
  });

  test("that does not read messages outside its turns is disconnected", async () => {
    const running = await start({ limits: { socketMessagesPerSecondMax: 10_000 } });
    const socket = await openRawSocket(running.url);
    socket.send(JSON.stringify({ type: "response.create", model: "held", input: "Hi" }));
    await eventually(() => running.simulator.ledger.totals().inFlight, { equals: 1 });
    socket.pause();
    // The longest input that the message for the client repeats.
    const steer = JSON.stringify({ type: "response.steer", input: "x".repeat(15 * 1024) });
    await eventually(() => {
      for (let i = 0; i < 20; i++) socket.send(steer);
      return running.simulator.ledger.last()?.abortedByClient === true;
    });
    socket.destroy();
  });

  test("that never reads is disconnected, and its upstream call is aborted", async () => {
    const running = await start({
      models: { flood: "sim-fast@bytes=12000000,events=1200" },
      limits: { writeStallMs: 300, keepAliveTickMs: 50 },
    });
    const socket = await openRawSocket(running.url);
    socket.pause();
    socket.send(JSON.stringify({ type: "response.create", model: "flood", input: "Hi", store: false }));
    await eventually(() => running.simulator.ledger.last()?.abortedByClient, { equals: true });
    socket.destroy();
  });
});

describe("a shutdown", () => {
  test("closes idle connections at once with 1012", async () => {
    const running = await start();
    const client = await open(running);
    gateway = null;
    const stopped = running.stop();
    expect(await client.closed).toMatchObject({ code: 1012 });
    await stopped;
  });

  test("finishes the turn in flight, rejects others, then closes with 1012", async () => {
    const running = await start();
    running.simulator.force("stall@chunk6,600ms", 1);
    const client = await open(running);
    client.create({ model: "fast", input: "Under way" });
    client.create({ model: "fast", input: "Waiting" });
    await client.until("response.output_text.delta");
    gateway = null;
    const stopped = running.stop();
    expect((await client.until("error")).at(-1)).toMatchObject({
      status: 400,
      error: { code: "websocket_connection_limit_reached" },
    });
    client.create({ model: "fast", input: "Late" });
    await client.until("response.completed");
    expect(await client.closed).toMatchObject({ code: 1012 });
    await stopped;
    expect(client.events.filter(({ type }) => type === "error")).toHaveLength(2);
  });

  test("aborts turns that do not end in time, and waits no longer", async () => {
    const running = await start({ limits: { drainTimeoutMs: 100 } });
    const client = await open(running);
    client.create({ model: "held", input: "Hi" });
    await client.until("response.output_text.delta");
    gateway = null;
    await running.stop();
    await client.closed;
    expect(running.log.filter((line) => line.includes("requests_unfinished"))).toEqual([]);
  });
});
