/** Concurrent turns: in sequence on a lane, in parallel on several lanes, and always bounded. */

import { afterEach, describe, expect, test } from "bun:test";
import { eventually } from "../support/eventually.ts";
import {
  type GatewayOptions,
  gatewayFile,
  OTHER_KEY,
  type RunningGateway,
  startTestGateway,
  TEST_KEY,
} from "../support/running-gateway.ts";
import { openSocketClient, type SocketClient } from "../support/turn-client.ts";

const MODELS = { fast: "sim-fast", held: "fault/stall@chunk6" };

let gateway: RunningGateway | null = null;
let client: SocketClient | null = null;
const others: SocketClient[] = [];
afterEach(async () => {
  client?.close();
  for (const other of others.splice(0)) other.close();
  await gateway?.stop();
});

async function start(
  options: GatewayOptions = {},
): Promise<{ gateway: RunningGateway; client: SocketClient }> {
  gateway = await startTestGateway({ models: MODELS, ...options });
  client = await openSocketClient(gateway.url);
  return { gateway, client };
}

const inFlight = ({ simulator }: RunningGateway) => simulator.ledger.totals().inFlight;
const create = (model: string, lane?: string) => ({
  model,
  input: "Hi",
  ...(lane === undefined ? {} : { stream_id: lane }),
});

test("turns without a lane run one after the other, in order", async () => {
  const { client, gateway } = await start();
  for (const number of [1, 2, 3])
    client.create({ model: "fast", input: `Number ${number}`, metadata: { number: `${number}` } });
  for (const number of [1, 2, 3]) {
    const events = await client.until("response.completed");
    expect(events.filter(({ type }) => type === "response.created")).toHaveLength(1);
    expect(JSON.stringify(events)).toContain(`Number ${number}`);
  }
  expect(gateway.simulator.ledger.totals().peakInFlight).toBe(1);
});

test("a lane runs while another waits for its upstream, and every event names its lane", async () => {
  const { client, gateway } = await start();
  client.create(create("held", "slow"));
  client.create(create("held"));
  await eventually(() => inFlight(gateway), { equals: 2 });
  client.create(create("fast", "quick"));
  client.create(create("fast", "slow"));
  const events = await client.until("response.completed");
  expect(events.at(-1)).toMatchObject({ stream_id: "quick", response: { model: "fast" } });
  const lanes = new Set(client.events.map(({ stream_id }) => stream_id));
  expect(lanes).toEqual(new Set(["slow", "quick", undefined]));
  // A turn behind the waiting one has not begun.
  expect(client.events.filter(({ stream_id }) => stream_id === "slow")).not.toContainEqual(
    expect.objectContaining({ response: expect.objectContaining({ model: "fast" }) }),
  );
});

test("each lane remembers its own last response", async () => {
  const { client } = await start();
  const turn = (lane: string, fields: object) =>
    client.turn({ ...create("fast", lane), store: false, ...fields });
  const a = await turn("a", {});
  const b = await turn("b", {});
  for (const [lane, { responseId }] of [["a", a] as const, ["b", b] as const]) {
    const { last } = await turn(lane, { previous_response_id: responseId });
    expect(last).toMatchObject({ type: "response.completed", stream_id: lane });
  }
});

test.each(["", "a b", "x".repeat(257), 7])("the lane name %p is rejected", async (name) => {
  const { client } = await start();
  const { last } = await client.turn({ model: "fast", input: "Hi", stream_id: name });
  expect(last).toMatchObject({ status: 400, error: { code: "invalid_stream_id", param: "stream_id" } });
  expect(last).not.toHaveProperty("stream_id");
});

test("the number of lanes per connection is limited; existing lanes stay open", async () => {
  const { client } = await start({ limits: { socketLanesMax: 2 } });
  await client.turn(create("fast"));
  await client.turn(create("fast", "a"));
  await client.turn(create("fast", "b"));
  const { last } = await client.turn(create("fast", "c"));
  expect(last).toMatchObject({
    status: 400,
    stream_id: "c",
    error: { code: "websocket_stream_limit_reached", param: "stream_id" },
  });
  expect((await client.turn(create("fast", "a"))).last.type).toBe("response.completed");
});

test("the number of waiting turns per lane is limited", async () => {
  const { client, gateway } = await start({ limits: { socketTurnsWaitingMax: 2 } });
  client.create(create("held", "a"));
  await eventually(() => inFlight(gateway), { equals: 1 });
  for (let i = 0; i < 3; i++) client.create(create("fast", "a"));
  const [refused] = (await client.until("error")).slice(-1);
  expect(refused).toMatchObject({
    status: 429,
    stream_id: "a",
    error: { code: "rate_limit_exceeded" },
    headers: { "retry-after": "1" },
  });
  expect((await client.turn(create("fast", "b"))).last.type).toBe("response.completed");
});

describe("waiting frames", () => {
  const LONG = { ...create("fast"), input: "x".repeat(3_000) };
  const REJECTED = { status: 429, error: { code: "rate_limit_exceeded" }, headers: { "retry-after": "1" } };
  const held = async (running: RunningGateway, key = TEST_KEY) => {
    const client = await openSocketClient(running.url, { key });
    others.push(client);
    const before = inFlight(running);
    client.create(create("held"));
    await eventually(() => inFlight(running) === before + 1);
    return client;
  };

  test("are limited in bytes per key, over all its connections", async () => {
    const { client, gateway } = await start({ limits: { socketsWaitingKeyBytesMax: 6_000 } });
    const [first, second, other] = [await held(gateway), await held(gateway), await held(gateway, OTHER_KEY)];
    first.create(LONG);
    first.create({ ...LONG, stream_id: "a", model: "nobody" });
    expect((await first.until("error")).at(-1)).toMatchObject({ status: 404, stream_id: "a" });
    second.create(LONG);
    expect((await second.until("error")).at(-1)).toMatchObject(REJECTED);
    // Frames that do not wait are accepted, and so are waiting frames of another key.
    expect((await client.turn(LONG)).last.type).toBe("response.completed");
    other.create(LONG);
    other.create({ ...create("nobody"), stream_id: "a" });
    expect((await other.until("error")).at(-1)).toMatchObject({ status: 404 });
  });

  test("free their bytes when their connection closes", async () => {
    const { gateway } = await start({ limits: { socketsWaitingKeyBytesMax: 6_000 } });
    const [first, second] = [await held(gateway), await held(gateway)];
    first.create(LONG);
    first.create({ ...create("nobody"), stream_id: "a" });
    await first.until("error");
    first.close();
    await eventually(() => inFlight(gateway), { equals: 1 });
    second.create(LONG);
    second.create({ ...create("nobody"), stream_id: "a" });
    expect((await second.until("error")).at(-1)).toMatchObject({ status: 404 });
  });

  test("are limited in bytes over all keys", async () => {
    const { gateway } = await start({ limits: { socketsWaitingBytesMax: 6_000 } });
    const [mine, other] = [await held(gateway), await held(gateway, OTHER_KEY)];
    mine.create(LONG);
    mine.create({ ...create("nobody"), stream_id: "a" });
    await mine.until("error");
    other.create(LONG);
    expect((await other.until("error")).at(-1)).toMatchObject(REJECTED);
  });
});

test("the number of concurrent turns is limited: others wait and are not rejected", async () => {
  const { client, gateway } = await start({ limits: { socketTurnsMax: 2 } });
  for (const lane of ["a", "b", "c"]) client.create(create("fast", lane));
  for (let i = 0; i < 3; i++) await client.until("response.completed");
  expect(gateway.simulator.ledger.totals().peakInFlight).toBeLessThanOrEqual(2);
  expect(client.events.some(({ type }) => type === "error")).toBe(false);
});

test("the concurrency of the key delays the turns of a connection before any is rejected", async () => {
  const file = gatewayFile({ models: MODELS }).replace(
    "on_disconnect: cancel",
    "on_disconnect: cancel\n    limits: { concurrency: 1 }",
  );
  const { client, gateway } = await start({ file });
  for (const lane of ["a", "b", "c"]) client.create(create("fast", lane));
  for (let i = 0; i < 3; i++) await client.until("response.completed");
  expect(gateway.simulator.ledger.totals().peakInFlight).toBe(1);
  expect(client.events.some(({ type }) => type === "error")).toBe(false);
});
