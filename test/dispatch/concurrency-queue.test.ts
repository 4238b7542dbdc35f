/** Requests over a concurrency limit of their key, user or group wait in the group's queue instead of being rejected. */

import { afterEach, describe, expect, test } from "bun:test";
import { limits } from "../../src/config/limits/product-limits.ts";
import { expectRejection } from "../support/error-envelope.ts";
import { eventually } from "../support/eventually.ts";
import {
  keySecret,
  type PooledGateway,
  type PoolSetup,
  runConcurrently,
  seenBy,
  startPooledGateway,
} from "../support/pooled-gateway.ts";
import { countWaiting, listSeen, occupySlots, stuckBeside, untilWaiting } from "../support/queue-control.ts";
import { asRecord, payload, readStream } from "../support/sse-text.ts";
import { openStreamClient } from "../support/stream-client.ts";
import { openSocketClient } from "../support/turn-client.ts";

const running: PooledGateway[] = [];

afterEach(async () => {
  await Promise.all(running.splice(0).map((gateway) => gateway.stop()));
});

async function start(setup: Partial<PoolSetup>): Promise<PooledGateway> {
  const gateway = await startPooledGateway({ accounts: [{ models: PACED }], ...setup });
  running.push(gateway);
  return gateway;
}

const PACED_MODEL = "sim-fast@first=30ms";
const PACED = stuckBeside(PACED_MODEL);
const QUEUE = { max_waiting: 200, timeout: "20s" };
const KEEP_ALIVE = { keepAliveMs: 100, keepAliveTickMs: 20 } as const;

const times = <T>(count: number, make: (i: number) => T) => Array.from({ length: count }, (_, i) => make(i));
const countPeak = (gateway: PooledGateway, model = PACED_MODEL) =>
  listSeen(gateway, model).reduce((sum, { peakInFlight }) => sum + peakInFlight, 0);
const inFlight = ({ upstreams }: PooledGateway) =>
  upstreams.reduce((sum, { ledger }) => sum + ledger.totals().inFlight, 0);

async function readStatus(asking: Promise<Response>): Promise<number> {
  const response = await asking;
  await response.text();
  return response.status;
}

describe("60 requests on a concurrency of 5, with a queue of 200 and 20 s", () => {
  test.each<[string, Partial<PoolSetup>]>([
    ["key", { keys: { a: { limits: { concurrency: 5 } } } }],
    ["each key of the group", { group: { queue: QUEUE, limits: { concurrency: 5 } }, keys: { a: {} } }],
    ["group", { group: { queue: QUEUE, group_limits: { concurrency: 5 } }, keys: { a: {} } }],
    ["user", { users: { "ada@example.com": { concurrency: 5 } }, keys: { a: { user: "ada@example.com" } } }],
  ])("of the %s are all served, and never more than 5 at once", async (_, setup) => {
    const gateway = await start({ group: { queue: QUEUE }, ...setup });
    const freeSlots = await occupySlots(gateway, 5, "a");
    const asked = times(60, (i) =>
      readStatus(gateway.send({ key: "a", stream: i % 2 === 0, family: i % 3 === 0 ? "responses" : "chat" })),
    );
    await untilWaiting(gateway, 60);
    await freeSlots();
    expect(new Set(await Promise.all(asked))).toEqual(new Set([200]));
    expect(listSeen(gateway, PACED_MODEL)).toMatchObject([{ requests: 60, peakInFlight: 5 }]);
    const rows = (await gateway.usageRows()).filter(({ outcome }) => outcome === "completed");
    expect(rows.filter(({ wait_ms }) => Number(wait_ms) > 0)).toHaveLength(60);
  });

  test("wait before a large body is read, and are all served", async () => {
    const gateway = await start({ group: { queue: QUEUE }, keys: { a: { limits: { concurrency: 5 } } } });
    const large = { messages: [{ role: "user", content: "word ".repeat(40_000) }] };
    const statuses = await Promise.all(times(20, () => readStatus(gateway.send({ key: "a", more: large }))));
    expect(new Set(statuses)).toEqual(new Set([200]));
    expect(countPeak(gateway)).toBeLessThanOrEqual(5);
  });

  test("may wait long before their bodies are read", async () => {
    const gateway = await start({
      accounts: [{ models: { pooled: "sim-fast@first=1500ms" } }],
      group: { queue: QUEUE },
      keys: { a: { limits: { concurrency: 1 } } },
      // The server discards unread body bytes sooner than the slot becomes free.
      limits: { connections: { ...limits.connections, unreadBodyMs: 200, checkMs: 50 } },
    });
    const first = readStatus(gateway.send({ key: "a" }));
    await eventually(() => inFlight(gateway), { equals: 1 });
    const large = { messages: [{ role: "user", content: "word ".repeat(400_000) }] };
    expect(await readStatus(gateway.send({ key: "a", more: large }))).toBe(200);
    expect(await first).toBe(200);
  });

  test("and turns of several connections of one key are all served", async () => {
    const gateway = await start({ group: { queue: QUEUE }, keys: { a: { limits: { concurrency: 2 } } } });
    const clients = await Promise.all(times(6, () => openSocketClient(gateway.url, { key: keySecret("a") })));
    const turns = await Promise.all(
      clients.flatMap((client) => [client.turn({ model: "pooled", input: "Hi", store: false })]),
    );
    expect(turns.map(({ last }) => last.type)).toEqual(times(6, () => "response.completed"));
    expect(countPeak(gateway)).toBeLessThanOrEqual(2);
    for (const client of clients) client.close();
  });

  test("background requests wait like others", async () => {
    const gateway = await start({ group: { queue: QUEUE }, keys: { a: { limits: { concurrency: 1 } } } });
    const statuses = await Promise.all(
      times(4, (i) =>
        readStatus(
          gateway.send({
            key: "a",
            family: "responses",
            more: i % 2 === 0 ? { background: true, store: true } : {},
          }),
        ),
      ),
    );
    expect(new Set(statuses)).toEqual(new Set([200]));
  });
});

describe("the queue is bounded", () => {
  async function busy(
    setup: Partial<PoolSetup>,
  ): Promise<{ gateway: PooledGateway; release(): Promise<void> }> {
    const gateway = await start({
      keys: { a: { limits: { concurrency: 1 } } },
      ...setup,
    });
    return { gateway, release: await occupySlots(gateway, 1, "a") };
  }

  test.each([false, true])("in time (stream: %p)", async (stream) => {
    const { gateway, release } = await busy({ group: { queue: { max_waiting: 10, timeout: "200ms" } } });
    const response = await gateway.send({ key: "a", stream });
    expect(response.headers.get("retry-after")).toBe("1");
    expect(await expectRejection(response, 429)).toMatchObject({
      code: "rate_limit_exceeded",
      message:
        "Rate limit reached for this API key: 1 concurrent request. No slot became available within 200 ms. Please try again in 1s.",
    });
    const id = response.headers.get("x-request-id");
    const row = asRecord((await gateway.usageRows()).find(({ request_id }) => request_id === id));
    expect(row).toMatchObject({ outcome: "refused", attempts: 0 });
    expect(Number(row.wait_ms)).toBeGreaterThanOrEqual(195);
    expect(JSON.parse(String(row.trace)).slotWaitMs).toBeGreaterThanOrEqual(195);
    expect(seenBy(gateway)).toEqual([1]);
    await release();
  });

  test("in length, together with requests that wait for an account", async () => {
    const { gateway, release } = await busy({
      accounts: [{ models: PACED, limits: { concurrency: 1 } }],
      group: { queue: { max_waiting: 2, timeout: "60s" } },
    });
    const leaving = new AbortController();
    // One waits for the account, one for the key's slot.
    const waiting = [
      gateway.send({ signal: leaving.signal }),
      gateway.send({ key: "a", signal: leaving.signal }),
    ];
    for (const one of waiting) one.catch(() => null);
    await untilWaiting(gateway, 2);
    expect(await countWaiting(gateway)).toEqual({ all: 2, forSlot: 1 });
    expect(await expectRejection(await gateway.send({ key: "a" }), 429)).toMatchObject({
      message: expect.stringContaining("The queue of your group is full (2 requests)."),
    });
    leaving.abort();
    await Promise.allSettled(waiting);
    await release();
    await untilWaiting(gateway, 0);
  });

  test("a request over its rpm limit is rejected at once, even while others wait", async () => {
    const { gateway, release } = await busy({ keys: { a: { limits: { concurrency: 1, rpm: 1 } } } });
    expect(await expectRejection(await gateway.send({ key: "a" }), 429)).toMatchObject({
      message: expect.stringContaining("1 requests per minute"),
    });
    await release();
  });
});

describe("while a request waits for its slot", () => {
  const openClient = (gateway: PooledGateway, path: string, body: object) =>
    openStreamClient(
      gateway.url,
      path,
      { model: "pooled", ...body },
      { headers: { authorization: `Bearer ${keySecret("a")}` } },
    );
  const MESSAGES = { messages: [{ role: "user", content: "Hello" }] };

  test.each([
    ["chat", "/v1/chat/completions", MESSAGES],
    ["responses", "/v1/responses", { input: "Hello" }],
  ])("its stream is kept alive by comments (%s)", async (_, path, prompt) => {
    const gateway = await start({ keys: { a: { limits: { concurrency: 1 } } }, limits: KEEP_ALIVE });
    const freeSlots = await occupySlots(gateway, 1, "a");
    const client = openClient(gateway, path, { ...prompt, stream: true });
    await client.until((text) => text.startsWith(": keep-alive\n\n".repeat(3)));
    await freeSlots();
    expect(await client.ended).toBe("message");
    expect(client.head()).toStartWith("HTTP/1.1 200");
    expect(client.head()).toContain("content-type: text/event-stream; charset=utf-8");
    expect(readStream(client.text()).events.at(-1)?.data).toBe("[DONE]");
    const row = asRecord((await gateway.usageRows()).find(({ outcome }) => outcome === "completed"));
    expect(row).toMatchObject({ status: 200, attempts: 1 });
  });

  test("until the timeout, a stream that has begun ends with the error", async () => {
    const gateway = await start({
      keys: { a: { limits: { concurrency: 1 } } },
      // Long enough for the first comment on a busy machine: without one, the response is a whole error.
      group: { queue: { max_waiting: 10, timeout: "2s" } },
      limits: KEEP_ALIVE,
    });
    const freeSlots = await occupySlots(gateway, 1, "a");
    const response = await gateway.send({ key: "a", family: "responses", stream: true });
    const { events } = readStream(await response.text());
    const failure = events.find(({ type }) => type === "response.failed");
    const { code, message } = asRecord(asRecord(payload(failure).response).error);
    expect(code).toBe("rate_limit_exceeded");
    expect(message).toMatch(/try again in \d+s/);
    await freeSlots();
  });

  test.each([false, true])(
    "a client that disconnects frees its place in the queue (stream: %p)",
    async (stream) => {
      const gateway = await start({
        keys: { a: { limits: { concurrency: 1 } } },
        group: { queue: { max_waiting: 1, timeout: "60s" } },
        limits: KEEP_ALIVE,
      });
      const freeSlots = await occupySlots(gateway, 1, "a");
      const client = openClient(gateway, "/v1/chat/completions", { ...MESSAGES, stream });
      await untilWaiting(gateway, 1);
      if (stream) await client.until((text) => text.includes("keep-alive"));
      client.disconnect("reset");
      await untilWaiting(gateway, 0);
      const next = readStatus(gateway.send({ key: "a" }));
      await untilWaiting(gateway, 1);
      await freeSlots();
      expect(await next).toBe(200);
      expect(seenBy(gateway)).toEqual([2]);
      const rows = await gateway.usageRows();
      const gone = rows.filter(({ outcome, attempts }) => outcome === "client_gone" && attempts === 0);
      expect(gone.length).toBe(1);
    },
  );

  test("another key is served after at most one request", async () => {
    const gateway = await start({
      group: { queue: QUEUE, group_limits: { concurrency: 1 } },
      keys: { a: {}, b: {} },
    });
    const freeSlots = await occupySlots(gateway, 1, "a");
    const order: string[] = [];
    const ask = async (key: string) => {
      await readStatus(gateway.send({ key }));
      order.push(key);
    };
    const asked = times(20, () => ask("a"));
    await untilWaiting(gateway, 20);
    asked.push(ask("b"));
    await untilWaiting(gateway, 21);
    await freeSlots();
    await Promise.all(asked);
    expect(order.indexOf("b")).toBeLessThanOrEqual(1);
  });
});

test("requests that wait at shutdown are served before the gateway ends", async () => {
  const gateway = await start({ group: { queue: QUEUE }, keys: { a: { limits: { concurrency: 1 } } } });
  const freeSlots = await occupySlots(gateway, 1, "a");
  const asked = times(4, () => readStatus(gateway.send({ key: "a" })));
  await untilWaiting(gateway, 4);
  running.splice(0);
  const stopped = gateway.stop();
  await freeSlots();
  expect(new Set(await Promise.all(asked))).toEqual(new Set([200]));
  await stopped;
});

test("1,000 requests that start and abort at random leave every slot free", async () => {
  const QUICK = "sim-fast@first=2ms";
  const gateway = await start({
    accounts: [{ models: { pooled: QUICK } }],
    group: { queue: { max_waiting: 1_000, timeout: "60s" }, group_limits: { concurrency: 6 } },
    keys: { a: { limits: { concurrency: 3 } }, b: {} },
  });
  let state = 5;
  const random = (below: number) => {
    state = (state * 48_271) % 2_147_483_647;
    return state % below;
  };
  await runConcurrently(
    times(1_000, (i) => i),
    60,
    async (i) => {
      const client = openStreamClient(
        gateway.url,
        "/v1/chat/completions",
        { model: "pooled", messages: [{ role: "user", content: "Hello" }], stream: i % 2 === 0 },
        { headers: { authorization: `Bearer ${keySecret(i % 2 === 0 ? "a" : "b")}` } },
      );
      if (i % 4 === 0) {
        await Promise.race([client.ended, Bun.sleep(random(30))]);
        client.disconnect("reset");
      }
      await client.ended;
    },
  );
  await eventually(async () => (await countWaiting(gateway)).all === 0 && inFlight(gateway) === 0);
  expect(countPeak(gateway, QUICK)).toBeLessThanOrEqual(6);
  const statuses = await Promise.all(
    times(12, (i) => readStatus(gateway.send({ key: i % 2 === 0 ? "a" : "b" }))),
  );
  expect(new Set(statuses)).toEqual(new Set([200]));
  const rows = await gateway.usageRows();
  expect(rows.filter(({ status }) => status === 500)).toEqual([]);
  expect(rows.filter(({ status }) => status === 429)).toEqual([]);
});
