/**
 * While every account is busy, requests wait in the queue: fair, bounded, kept alive, and served as soon as a slot is
 * free.
 */

import { afterEach, describe, expect, test } from "bun:test";
import { expectRejection } from "../support/error-envelope.ts";
import { eventually } from "../support/eventually.ts";
import { type GatedUpstream, startGatedUpstream } from "../support/gated-upstream.ts";
import {
  keySecret,
  type PooledGateway,
  type PoolSetup,
  seenBy,
  startPooledGateway,
} from "../support/pooled-gateway.ts";
import { listSeen, occupySlots, stuckBeside, untilWaiting } from "../support/queue-control.ts";
import { asRecord, payload, readStream } from "../support/sse-text.ts";
import { openStreamClient } from "../support/stream-client.ts";

const running: PooledGateway[] = [];
const gates: GatedUpstream[] = [];

afterEach(async () => {
  await Promise.all(gates.splice(0).map((gate) => gate.stop()));
  await Promise.all(running.splice(0).map((gateway) => gateway.stop()));
});

const SERVICE_MS = 50;
const PACED = `sim-fast@first=${SERVICE_MS}ms`;

async function start(setup: PoolSetup): Promise<PooledGateway> {
  const gateway = await startPooledGateway(setup);
  running.push(gateway);
  return gateway;
}

const inFlight = ({ upstreams }: PooledGateway) => upstreams.map(({ ledger }) => ledger.totals().inFlight);

/** Concurrency of the group: a request that has only reached the gateway occupies it too. */
async function placesInUse({ url }: PooledGateway): Promise<unknown> {
  const headers = { authorization: `Bearer ${keySecret("b")}` };
  const { limits } = asRecord(await (await fetch(`${url}/v1/usage`, { headers })).json());
  return asRecord(asRecord(asRecord(limits).group).concurrency).used;
}

const times = <T>(count: number, make: (i: number) => T) => Array.from({ length: count }, (_, i) => make(i));

async function readRow(gateway: PooledGateway, response: Response): Promise<Record<string, unknown>> {
  const id = response.headers.get("x-request-id");
  return asRecord((await gateway.usageRows()).find((row) => row.request_id === id));
}

/** The runtime opens at most 256 connections at once from one process, but it does not count sockets. */
async function askBySocket(
  { url }: PooledGateway,
  { stream, key }: { stream: boolean; key?: string },
): Promise<{ status: number; text: string }> {
  const client = openStreamClient(
    url,
    "/v1/chat/completions",
    { model: "pooled", messages: [{ role: "user", content: "Hello" }], stream },
    key === undefined ? {} : { headers: { authorization: `Bearer ${keySecret(key)}` } },
  );
  expect(await client.ended).toBe("message");
  return { status: Number(client.head().split(" ", 2)[1]), text: client.text() };
}

describe("500 clients on an account with a concurrency of 10", () => {
  test.each([false, true])(
    "are all served, and the upstream never sees more than 10 (stream: %p)",
    async (stream) => {
      const gateway = await start({
        accounts: [{ models: stuckBeside(PACED), limits: { concurrency: 10 } }],
        group: { queue: { max_waiting: 1_000, timeout: "60s" } },
      });
      // All clients are in the queue before the first is served: the waits below do not depend on when they arrive.
      const freeSlots = await occupySlots(gateway, 10);
      const asked = times(500, async () => {
        const { status, text } = await askBySocket(gateway, { stream });
        return stream && !text.includes("[DONE]") ? 0 : status;
      });
      await untilWaiting(gateway, 500);
      await freeSlots();
      expect(new Set(await Promise.all(asked))).toEqual(new Set([200]));
      expect(listSeen(gateway, PACED)).toMatchObject([{ requests: 500, peakInFlight: 10 }]);
      const rows = (await gateway.usageRows()).filter(({ outcome }) => outcome === "completed");
      const waits = rows.map(({ wait_ms }) => Number(wait_ms)).sort((a, b) => a - b);
      expect(waits).toHaveLength(500);
      expect(waits[0]).toBeGreaterThan(0);
      expect(waits.at(-1)).toBeGreaterThan((500 / 10 - 5) * SERVICE_MS);
    },
  );

  test("use every slot of every account", async () => {
    const gateway = await start({
      accounts: times(3, () => ({ models: stuckBeside(PACED), limits: { concurrency: 4 } })),
      group: { queue: { max_waiting: 1_000, timeout: "60s" } },
    });
    const freeSlots = await occupySlots(gateway, 12);
    const asked = times(120, async () => {
      const response = await gateway.send({});
      await response.text();
      return response.status;
    });
    await untilWaiting(gateway, 120);
    await freeSlots();
    expect(new Set(await Promise.all(asked))).toEqual(new Set([200]));
    const seen = listSeen(gateway, PACED);
    expect(seen.map(({ peakInFlight }) => peakInFlight)).toEqual([4, 4, 4]);
    // The three accounts are alike, so none may be idle while the others work.
    for (const { requests } of seen) expect(requests).toBeGreaterThan(20);
  });
});

describe("the order of the queue", () => {
  /**
   * One account that serves one request at a time, and none until it is released. Requests are identified by a name.
   */
  async function startLine(): Promise<{
    ask(key: string, name: string): Promise<void>;
    /** Serves all requests and returns their order. */
    served(): Promise<string[]>;
  }> {
    const upstream = startGatedUpstream();
    gates.push(upstream);
    const gateway = await start({
      accounts: [{ url: upstream.url, limits: { concurrency: 1 } }],
      group: { queue: { max_waiting: 1_000, timeout: "60s" } },
      keys: { a: {}, b: {} },
    });
    const asked: Promise<void>[] = [];
    return {
      async ask(key, name) {
        const read = async () => {
          const response = await gateway.send({ key, stream: true, more: { user: name } });
          await response.text();
          expect(response.status).toBe(200);
        };
        asked.push(read());
        await eventually(() => upstream.bodies.length, { equals: 1 });
        await untilWaiting(gateway, asked.length - 1);
      },
      async served() {
        upstream.release();
        await Promise.all(asked);
        return upstream.bodies.map((body) => /"user":"(\w+)"/.exec(body)?.[1] ?? "");
      },
    };
  }

  test("many waiting requests of one key delay another key by at most one request", async () => {
    const line = await startLine();
    for (let i = 0; i < 20; i++) await line.ask("a", `a${i}`);
    await line.ask("b", "b0");
    expect((await line.served()).indexOf("b0")).toBeLessThanOrEqual(2);
  });

  test("alternates between two keys, each in the order of its requests", async () => {
    const line = await startLine();
    for (const name of ["a0", "a1", "a2", "a3", "b1", "b2", "b3"]) await line.ask(name.slice(0, 1), name);
    const served = await line.served();
    expect(served.filter((name) => name.startsWith("a"))).toEqual(["a0", "a1", "a2", "a3"]);
    expect(served.filter((name) => name.startsWith("b"))).toEqual(["b1", "b2", "b3"]);
    // When the second request of b is served, a has had at most its share.
    const before = served.slice(0, served.indexOf("b2")).filter((name) => name.startsWith("a"));
    expect(before.length).toBeLessThanOrEqual(3);
  });
});

describe("the queue is bounded", () => {
  test("in length: a request that finds it full is rejected with Retry-After", async () => {
    const gateway = await start({
      accounts: [{ models: stuckBeside("sim-fast"), limits: { concurrency: 1 } }],
      group: { queue: { max_waiting: 2, timeout: "60s" } },
    });
    const freeSlots = await occupySlots(gateway, 1);
    const leaving = new AbortController();
    const queued = times(2, () => gateway.send({ signal: leaving.signal }).catch(() => null));
    await untilWaiting(gateway, 2);
    const response = await gateway.send({});
    expect(response.headers.get("retry-after")).toMatch(/^([1-9]|[1-5]\d|60)$/);
    expect(await expectRejection(response, 429)).toMatchObject({
      code: "rate_limit_exceeded",
      message: expect.stringContaining("The queue of your group is full (2 requests)"),
    });
    expect(seenBy(gateway)).toEqual([1]);
    leaving.abort();
    await Promise.all(queued);
    await freeSlots();
  });

  test.each([false, true])(
    "in time: a request is rejected after the timeout (stream: %p)",
    async (stream) => {
      const gateway = await start({
        accounts: [{ models: stuckBeside("sim-fast"), limits: { concurrency: 1 } }],
        group: { queue: { max_waiting: 10, timeout: "200ms" } },
      });
      const freeSlots = await occupySlots(gateway, 1);
      const response = await gateway.send({ stream });
      expect(response.headers.get("retry-after")).toMatch(/^([1-9]|[1-5]\d|60)$/);
      expect(await expectRejection(response, 429)).toMatchObject({ code: "rate_limit_exceeded" });
      const row = await readRow(gateway, response);
      expect(row).toMatchObject({ outcome: "refused", attempts: 0, error_code: "rate_limit_exceeded" });
      expect(row.wait_ms).toBeGreaterThanOrEqual(195);
      expect(seenBy(gateway)).toEqual([1]);
      await freeSlots();
    },
  );

  test("a group without a queue rejects at once", async () => {
    const gateway = await start({
      accounts: [{ models: stuckBeside("sim-fast"), limits: { concurrency: 1 } }],
      group: { queue: { max_waiting: 0, timeout: "30s" } },
    });
    const freeSlots = await occupySlots(gateway, 1);
    await expectRejection(await gateway.send({}), 429);
    await freeSlots();
  });
});

describe("a queued request", () => {
  const KEEP_ALIVE = { keepAliveMs: 100, keepAliveTickMs: 20 } as const;

  test.each([
    ["chat", "/v1/chat/completions", { messages: [{ role: "user", content: "Hello" }] }],
    ["responses", "/v1/responses", { input: "Hello" }],
  ])("for a stream receives comments until it begins (%s)", async (_, path, prompt) => {
    const gateway = await start({
      accounts: [{ models: stuckBeside("sim-fast"), limits: { concurrency: 1 } }],
      limits: KEEP_ALIVE,
    });
    const freeSlots = await occupySlots(gateway, 1);
    const client = openStreamClient(gateway.url, path, { model: "pooled", stream: true, ...prompt });
    await client.until((text) => text.startsWith(": keep-alive\n\n".repeat(3)));
    await freeSlots();
    expect(await client.ended).toBe("message");
    expect(client.head()).toStartWith("HTTP/1.1 200");
    expect(readStream(client.text()).events.at(-1)?.data).toBe("[DONE]");
    const row = asRecord((await gateway.usageRows()).find(({ outcome }) => outcome === "completed"));
    expect(row).toMatchObject({ status: 200, attempts: 1 });
    expect(row.wait_ms).toBeGreaterThan(100);
    expect(Number(row.first_byte_ms)).toBeGreaterThan(Number(row.wait_ms));
  });

  test("for a stream that has begun ends with the error after the timeout", async () => {
    const gateway = await start({
      accounts: [{ models: stuckBeside("sim-fast"), limits: { concurrency: 1 } }],
      // Long enough for the first comment on a busy machine: without one, the response is a whole error.
      group: { queue: { max_waiting: 10, timeout: "2s" } },
      limits: KEEP_ALIVE,
    });
    const freeSlots = await occupySlots(gateway, 1);
    const response = await gateway.send({ family: "responses", stream: true });
    const { events, comments } = readStream(await response.text());
    expect(comments).toContain("keep-alive");
    const failure = events.find(({ type }) => type === "response.failed");
    const { code, message } = asRecord(asRecord(payload(failure).response).error);
    expect(code).toBe("rate_limit_exceeded");
    // Codex reads the retry time from here.
    expect(message).toMatch(/try again in \d+s/);
    await freeSlots();
  });

  test.each([false, true])("of a client that disconnects frees its place (stream: %p)", async (stream) => {
    const gateway = await start({
      accounts: [{ models: stuckBeside("sim-fast"), limits: { concurrency: 1 } }],
      group: { queue: { max_waiting: 1, timeout: "60s" } },
      limits: KEEP_ALIVE,
    });
    const freeSlots = await occupySlots(gateway, 1);
    const client = openStreamClient(gateway.url, "/v1/chat/completions", {
      model: "pooled",
      messages: [{ role: "user", content: "Hello" }],
      stream,
    });
    await untilWaiting(gateway, 1);
    if (stream) await client.until((text) => text.includes("keep-alive"));
    await expectRejection(await gateway.send({}), 429);
    client.disconnect("reset");
    await untilWaiting(gateway, 0);
    const next = gateway.send({});
    await untilWaiting(gateway, 1);
    await freeSlots();
    expect((await next).status).toBe(200);
    await (await next).text();
    expect(seenBy(gateway)).toEqual([2]);
    const rows = await gateway.usageRows();
    const gone = rows.filter(({ outcome, attempts }) => outcome === "client_gone" && attempts === 0);
    expect(gone.length).toBe(1);
    expect(gone[0]?.wait_ms).toBeGreaterThan(0);
  });

  test("is rejected if the account's rpm limit frees up too late", async () => {
    const gateway = await start({
      accounts: [{ limits: { rpm: 3 } }],
      group: { queue: { max_waiting: 10, timeout: "1s" } },
    });
    for (let i = 0; i < 3; i++) expect((await gateway.send({})).status).toBe(200);
    const response = await gateway.send({});
    const error = await expectRejection(response, 429);
    expect(error.code).toBe("rate_limit_exceeded");
    expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(50);
    expect(seenBy(gateway)).toEqual([3]);
  });
});

describe("1,000 clients that disconnect at random", () => {
  test("leave every slot free", async () => {
    const gateway = await start({
      accounts: times(2, () => ({
        models: { pooled: "sim-fast@first=5ms,events=20,interval=2ms" },
        limits: { concurrency: 10 },
      })),
      group: { queue: { max_waiting: 1_000, timeout: "60s" }, group_limits: { concurrency: 400 } },
      keys: { a: { limits: { concurrency: 300 } }, b: {} },
    });
    let state = 7;
    const random = (below: number) => {
      state = (state * 48_271) % 2_147_483_647;
      return state % below;
    };
    const leaveEarly = async (i: number) => {
      const client = openStreamClient(
        gateway.url,
        i % 3 === 0 ? "/v1/responses" : "/v1/chat/completions",
        i % 3 === 0
          ? { model: "pooled", input: "Hello", stream: i % 2 === 0 }
          : { model: "pooled", messages: [{ role: "user", content: "Hello" }], stream: i % 2 === 0 },
        { headers: { authorization: `Bearer ${keySecret(i % 4 === 0 ? "a" : "b")}` } },
      );
      await Promise.race([client.ended, Bun.sleep(random(120))]);
      client.disconnect(i % 5 === 0 ? "fin" : "reset");
      await client.ended;
    };
    let next = 0;
    await Promise.all(
      times(100, async () => {
        for (let i = next++; i < 1_000; i = next++) await leaveEarly(i);
      }),
    );
    await eventually(
      async () => inFlight(gateway).every((count) => count === 0) && (await placesInUse(gateway)) === 0,
    );
    for (const { ledger } of gateway.upstreams) ledger.reset();

    // Uses all slots at once: a slot that was not released would be missing here.
    const burst = await Promise.all(
      times(400, async (i) => {
        const { status } = await askBySocket(gateway, { key: i < 300 ? "a" : "b", stream: i % 2 === 0 });
        return status;
      }),
    );
    expect(new Set(burst)).toEqual(new Set([200]));
    expect(gateway.upstreams.map(({ ledger }) => ledger.totals().peakInFlight)).toEqual([10, 10]);
    const rows = await gateway.usageRows();
    expect(rows.filter(({ status }) => status === 500)).toEqual([]);
    expect(rows.filter(({ outcome }) => outcome === "client_gone").length).toBeGreaterThan(100);
  });
});
