/**
 * While every account is busy, requests wait in the queue: fair, bounded, kept alive, and served as soon as a slot is
 * free.
 */

import { afterEach, describe, expect, test } from "bun:test";
import { createTokenClient } from "../support/console-client.ts";
import { expectRefusal } from "../support/error-envelope.ts";
import { eventually } from "../support/eventually.ts";
import { type GatedUpstream, startGatedUpstream } from "../support/gated-upstream.ts";
import {
  keySecret,
  type PooledGateway,
  type PoolSetup,
  seenBy,
  startPooledGateway,
} from "../support/pooled-gateway.ts";
import { asRecord, payload, readStream } from "../support/sse-text.ts";
import { openStreamClient } from "../support/stream-client.ts";

const running: PooledGateway[] = [];
const gates: GatedUpstream[] = [];

afterEach(async () => {
  await Promise.all(gates.splice(0).map((gate) => gate.stop()));
  await Promise.all(running.splice(0).map((gateway) => gateway.stop()));
});

const SERVICE_MS = 50;
const PACED = { pooled: `sim-fast@first=${SERVICE_MS}ms` };
const STUCK = { pooled: "sim-fast@first=60s" };

async function start(setup: PoolSetup): Promise<PooledGateway> {
  const gateway = await startPooledGateway(setup);
  running.push(gateway);
  return gateway;
}

const peakOf = ({ upstreams }: PooledGateway) => upstreams.map(({ ledger }) => ledger.totals().peakInFlight);
const inFlight = ({ upstreams }: PooledGateway) => upstreams.map(({ ledger }) => ledger.totals().inFlight);

/** Concurrency of the group: a request that has only reached the gateway occupies it too. */
async function placesInUse({ url }: PooledGateway): Promise<unknown> {
  const headers = { authorization: `Bearer ${keySecret("b")}` };
  const { limits } = asRecord(await (await fetch(`${url}/v1/usage`, { headers })).json());
  return asRecord(asRecord(asRecord(limits).group).concurrency).used;
}

const times = <T>(count: number, make: (i: number) => T) => Array.from({ length: count }, (_, i) => make(i));

async function rowOf(gateway: PooledGateway, response: Response): Promise<Record<string, unknown>> {
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
        accounts: [{ models: PACED, limits: { concurrency: 10 } }],
        group: { queue: { max_waiting: 1_000, timeout: "60s" } },
      });
      const statuses = await Promise.all(
        times(500, async () => {
          const { status, text } = await askBySocket(gateway, { stream });
          return stream && !text.includes("[DONE]") ? 0 : status;
        }),
      );
      expect(new Set(statuses)).toEqual(new Set([200]));
      expect(peakOf(gateway)).toEqual([10]);
      expect(seenBy(gateway)).toEqual([500]);
      const waits = (await gateway.usageRows()).map(({ wait_ms }) => Number(wait_ms));
      expect(waits.filter((ms) => ms === 0).length).toBeGreaterThanOrEqual(10);
      expect(Math.max(...waits)).toBeGreaterThan((500 / 10 - 5) * SERVICE_MS);
    },
  );

  test("use every slot of every account", async () => {
    const gateway = await start({
      accounts: times(3, () => ({ models: PACED, limits: { concurrency: 4 } })),
      group: { queue: { max_waiting: 1_000, timeout: "60s" } },
    });
    const statuses = await Promise.all(
      times(120, async () => {
        const response = await gateway.send({});
        await response.text();
        return response.status;
      }),
    );
    expect(new Set(statuses)).toEqual(new Set([200]));
    expect(peakOf(gateway)).toEqual([4, 4, 4]);
    // The three accounts are alike, so none may be idle while the others work.
    for (const seen of seenBy(gateway)) expect(seen).toBeGreaterThan(20);
  });
});

describe("the order of the queue", () => {
  /**
   * One account that serves one request at a time, and none until it is released. Requests are identified by a name.
   */
  async function startLine(): Promise<{
    ask(key: string, name: string): Promise<void>;
    /** Waits until this many requests are queued. */
    inLine(count: number): Promise<unknown>;
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
    const admin = await createTokenClient(gateway, "root@example.com", "read", "admin");
    const asked: Promise<void>[] = [];
    const inLine = (count: number) =>
      eventually(async () => {
        const text = await (await admin.fetch("/metrics")).text();
        return text.includes(`gateway_requests_waiting{group="default"} ${count}\n`);
      });
    return {
      inLine,
      async ask(key, name) {
        const read = async () => {
          const response = await gateway.send({ key, stream: true, more: { user: name } });
          await response.text();
          expect(response.status).toBe(200);
        };
        asked.push(read());
        await inLine(asked.length - 1);
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
      accounts: [{ models: STUCK, limits: { concurrency: 1 } }],
      group: { queue: { max_waiting: 2, timeout: "60s" } },
    });
    const leaving = new AbortController();
    const held = times(3, () => gateway.send({ signal: leaving.signal }).catch(() => null));
    await eventually(() => inFlight(gateway)[0] === 1);
    const response = await eventually(async () => {
      const asked = await gateway.send({ signal: AbortSignal.timeout(500) }).catch(() => null);
      return asked?.status === 429 ? asked : null;
    });
    expect(response.headers.get("retry-after")).toMatch(/^([1-9]|[1-5]\d|60)$/);
    expect(await expectRefusal(response, 429)).toMatchObject({
      code: "rate_limit_exceeded",
      message: expect.stringContaining("The queue of your group is full (2 requests)"),
    });
    expect(seenBy(gateway)).toEqual([1]);
    leaving.abort();
    await Promise.all(held);
  });

  test.each([false, true])(
    "in time: a request is rejected after the timeout (stream: %p)",
    async (stream) => {
      const gateway = await start({
        accounts: [{ models: STUCK, limits: { concurrency: 1 } }],
        group: { queue: { max_waiting: 10, timeout: "200ms" } },
      });
      const leaving = new AbortController();
      const held = gateway.send({ signal: leaving.signal }).catch(() => null);
      await eventually(() => inFlight(gateway)[0] === 1);
      const response = await gateway.send({ stream });
      expect(response.headers.get("retry-after")).toMatch(/^([1-9]|[1-5]\d|60)$/);
      expect(await expectRefusal(response, 429)).toMatchObject({ code: "rate_limit_exceeded" });
      const row = await rowOf(gateway, response);
      expect(row).toMatchObject({ outcome: "refused", attempts: 0, error_code: "rate_limit_exceeded" });
      expect(row.wait_ms).toBeGreaterThanOrEqual(195);
      expect(seenBy(gateway)).toEqual([1]);
      leaving.abort();
      await held;
    },
  );

  test("a group without a queue rejects at once", async () => {
    const gateway = await start({
      accounts: [{ models: STUCK, limits: { concurrency: 1 } }],
      group: { queue: { max_waiting: 0, timeout: "30s" } },
    });
    const leaving = new AbortController();
    const held = gateway.send({ signal: leaving.signal }).catch(() => null);
    await eventually(() => inFlight(gateway)[0] === 1);
    await expectRefusal(await gateway.send({}), 429);
    leaving.abort();
    await held;
  });
});

describe("a queued request", () => {
  const KEEP_ALIVE = { keepAliveMs: 100, keepAliveTickMs: 20 } as const;

  test.each(["chat", "responses"] as const)(
    "for a stream receives comments until it begins (%s)",
    async (family) => {
      const gateway = await start({
        accounts: [{ models: { pooled: "sim-fast@first=450ms" }, limits: { concurrency: 1 } }],
        limits: KEEP_ALIVE,
      });
      const first = gateway.send({ family });
      await eventually(() => inFlight(gateway)[0] === 1);
      const response = await gateway.send({ family, stream: true });
      const text = await response.text();
      await first;
      expect(response.status).toBe(200);
      const { comments, events } = readStream(text);
      expect(comments.filter((comment) => comment === "keep-alive").length).toBeGreaterThan(2);
      expect(text).toStartWith(": keep-alive\n\n");
      expect(events.at(-1)?.data).toBe("[DONE]");
      const row = await rowOf(gateway, response);
      expect(row).toMatchObject({ outcome: "completed", status: 200, attempts: 1 });
      expect(row.wait_ms).toBeGreaterThan(100);
      expect(Number(row.first_byte_ms)).toBeGreaterThan(Number(row.wait_ms));
    },
  );

  test("for a stream that has begun ends with the error after the timeout", async () => {
    const gateway = await start({
      accounts: [{ models: STUCK, limits: { concurrency: 1 } }],
      group: { queue: { max_waiting: 10, timeout: "400ms" } },
      limits: KEEP_ALIVE,
    });
    const leaving = new AbortController();
    const held = gateway.send({ signal: leaving.signal }).catch(() => null);
    await eventually(() => inFlight(gateway)[0] === 1);
    const response = await gateway.send({ family: "responses", stream: true });
    const { events, comments } = readStream(await response.text());
    expect(comments).toContain("keep-alive");
    const failure = events.find(({ type }) => type === "response.failed");
    const { code, message } = asRecord(asRecord(payload(failure).response).error);
    expect(code).toBe("rate_limit_exceeded");
    // Codex reads the retry time from here.
    expect(message).toMatch(/try again in \d+s/);
    leaving.abort();
    await held;
  });

  test.each([false, true])("of a client that disconnects frees its place (stream: %p)", async (stream) => {
    const gateway = await start({
      accounts: [{ models: { pooled: "sim-fast@first=400ms" }, limits: { concurrency: 1 } }],
      group: { queue: { max_waiting: 1, timeout: "60s" } },
      limits: KEEP_ALIVE,
    });
    const first = gateway.send({}).then((response) => response.text());
    await eventually(() => inFlight(gateway)[0] === 1);
    const client = openStreamClient(gateway.url, "/v1/chat/completions", {
      model: "pooled",
      messages: [{ role: "user", content: "Hello" }],
      stream,
    });
    await Bun.sleep(150);
    await expectRefusal(await gateway.send({}), 429);
    client.disconnect("reset");
    const next = await eventually(async () => {
      const response = await gateway.send({});
      await response.text();
      return response.status === 200;
    });
    expect(next).toBe(true);
    await first;
    expect(seenBy(gateway)).toEqual([2]);
    const rows = await gateway.usageRows();
    const gone = rows.filter(({ outcome }) => outcome === "client_gone");
    expect(gone.length).toBe(1);
    expect(gone[0]).toMatchObject({ attempts: 0 });
    expect(gone[0]?.wait_ms).toBeGreaterThan(0);
  });

  test("is rejected if the account's rpm limit frees up too late", async () => {
    const gateway = await start({
      accounts: [{ limits: { rpm: 3 } }],
      group: { queue: { max_waiting: 10, timeout: "1s" } },
    });
    for (let i = 0; i < 3; i++) expect((await gateway.send({})).status).toBe(200);
    const response = await gateway.send({});
    const error = await expectRefusal(response, 429);
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
    expect(peakOf(gateway)).toEqual([10, 10]);
    const rows = await gateway.usageRows();
    expect(rows.filter(({ status }) => status === 500)).toEqual([]);
    expect(rows.filter(({ outcome }) => outcome === "client_gone").length).toBeGreaterThan(100);
  });
});
