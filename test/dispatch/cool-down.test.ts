/** A failed account cools down for as long as its failure class requires, and no other account or model is affected. */

import { afterEach, describe, expect, test } from "bun:test";
import { expectRejection } from "../support/error-envelope.ts";
import { eventually } from "../support/eventually.ts";
import {
  type PooledGateway,
  type PoolSetup,
  PUBLIC_MODEL,
  poolFile,
  type RequestSetup,
  seenBy,
  startPooledGateway,
} from "../support/pooled-gateway.ts";

const running: PooledGateway[] = [];
const servers: ReturnType<typeof Bun.serve>[] = [];

afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.stop(true)));
  await Promise.all(running.splice(0).map((gateway) => gateway.stop()));
});

async function start(setup: PoolSetup): Promise<PooledGateway> {
  const gateway = await startPooledGateway(setup);
  running.push(gateway);
  return gateway;
}

async function readStatus(gateway: PooledGateway, ask: RequestSetup = {}): Promise<number> {
  const response = await gateway.send(ask);
  await response.text();
  return response.status;
}

/** An upstream with one fixed response. */
function upstreamWith(body: object, init: ResponseInit = {}): { url: string; asked(): number } {
  let asked = 0;
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch() {
      asked++;
      return Response.json(body, init);
    },
  });
  servers.push(server);
  return { url: `http://127.0.0.1:${server.port}/v1`, asked: () => asked };
}

/** An upstream over its rate limit that reports the reset time in a header. */
function refusing(retryAfterSeconds: number): { url: string; asked(): number } {
  const error = { message: "Slow down.", type: "requests", param: null, code: "rate_limit_exceeded" };
  return upstreamWith({ error }, { status: 429, headers: { "retry-after": String(retryAfterSeconds) } });
}

const PREFERRED = { priority: 1 };
const SPARE = { priority: 2 };

describe("one account", () => {
  test("that returns 429 cools down for that model only", async () => {
    const gateway = await start({
      accounts: [
        { ...PREFERRED, models: { pooled: "fault/429@retry=60", other: "sim-fast" } },
        { ...SPARE, models: { pooled: "sim-fast", other: "sim-fast" } },
      ],
    });
    for (let i = 0; i < 5; i++) expect(await readStatus(gateway, { stream: i % 2 === 0 })).toBe(200);
    expect(seenBy(gateway)).toEqual([1, 5]);
    for (let i = 0; i < 5; i++) expect(await readStatus(gateway, { model: "other" })).toBe(200);
    expect(seenBy(gateway)).toEqual([6, 5]);
  });

  test.each(["429@retry=1", "429-date"])("serves again after its Retry-After (%s)", async (fault) => {
    const gateway = await start({ accounts: [PREFERRED, SPARE] });
    gateway.upstreams[0]?.force(fault, 1);
    expect(await readStatus(gateway)).toBe(200);
    expect(seenBy(gateway)).toEqual([1, 1]);
    expect(await readStatus(gateway)).toBe(200);
    expect(seenBy(gateway)).toEqual([1, 2]);
    await eventually(async () => {
      await readStatus(gateway);
      return (seenBy(gateway)[0] ?? 0) > 1;
    });
    expect(await readStatus(gateway)).toBe(200);
    expect(seenBy(gateway)[0]).toBe(3);
  });

  test("that refuses connections cools down after three attempts, for all models", async () => {
    const listener = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
    const url = `http://127.0.0.1:${listener.port}/v1`;
    listener.stop(true);
    const models = { pooled: "sim-fast", other: "sim-fast" };
    const gateway = await start({
      accounts: [
        { ...PREFERRED, url, models },
        { ...SPARE, models },
      ],
    });
    for (const model of ["pooled", "other", "pooled", "other", "pooled"]) {
      expect(await readStatus(gateway, { model })).toBe(200);
    }
    const rows = await gateway.usageRows();
    expect(rows.map(({ attempts }) => attempts)).toEqual([2, 2, 2, 1, 1]);
  });

  test.each(["401", "403"])(
    "whose credential is rejected is parked until the credential changes (%s)",
    async (fault) => {
      const setup = { accounts: [PREFERRED, SPARE] };
      const gateway = await start(setup);
      const urls = gateway.upstreams.map(({ url }) => url);
      gateway.upstreams[0]?.force(fault);
      expect(await readStatus(gateway)).toBe(200);
      gateway.upstreams[0]?.force(null);
      for (let i = 0; i < 3; i++) expect(await readStatus(gateway)).toBe(200);
      expect(seenBy(gateway)).toEqual([1, 4]);

      // Another field changes: the credential is still the same. The new model shows that the change is active.
      const spare = { ...SPARE, models: { [PUBLIC_MODEL]: "sim-fast", added: "sim-fast" } };
      await gateway.apply(poolFile({ accounts: [{ ...PREFERRED, weight: 5 }, spare] }, urls));
      await eventually(() => readStatus(gateway, { model: "added" }), { equals: 200 });
      expect(await readStatus(gateway)).toBe(200);
      expect(seenBy(gateway)).toEqual([1, 6]);

      await gateway.apply(poolFile({ accounts: [{ ...PREFERRED, credential: "renewed" }, SPARE] }, urls));
      await eventually(async () => {
        expect(await readStatus(gateway)).toBe(200);
        return (seenBy(gateway)[0] ?? 0) > 1;
      });
      expect(gateway.upstreams[0]?.ledger.last()?.headers.authorization).toBe("Bearer renewed");
    },
  );

  test("that rejects invalid requests stays healthy", async () => {
    const gateway = await start({ accounts: [PREFERRED, SPARE] });
    gateway.upstreams[0]?.force("400", 10);
    for (let i = 0; i < 10; i++) expect(await readStatus(gateway)).toBe(400);
    expect(await readStatus(gateway)).toBe(200);
    expect(seenBy(gateway)).toEqual([11, 0]);
  });
});

describe("all accounts", () => {
  test("cooling down briefly: the request waits and is served", async () => {
    const gateway = await start({ accounts: [{}, {}], group: { queue: { max_waiting: 10, timeout: "5s" } } });
    for (const upstream of gateway.upstreams) upstream.force("429@retry=1", 1);
    expect(await readStatus(gateway)).toBe(429);
    const statuses = await Promise.all(
      [false, true, false, true].map((stream) => readStatus(gateway, { stream })),
    );
    expect(statuses).toEqual([200, 200, 200, 200]);
    const rows = (await gateway.usageRows()).filter(({ status }) => status === 200);
    for (const row of rows) expect(row.wait_ms).toBeGreaterThan(300);
    expect(seenBy(gateway).reduce((sum, seen) => sum + seen, 0)).toBe(6);
  });

  test("cooling down longer than the queue timeout: 429 with the earliest retry time", async () => {
    const [slow, soon] = [refusing(50), refusing(20)];
    const gateway = await start({
      accounts: [{ url: slow.url }, { url: soon.url }],
      group: { queue: { max_waiting: 10, timeout: "2s" } },
    });
    expect(await readStatus(gateway)).toBe(429);
    for (const stream of [false, true]) {
      const response = await gateway.send({ stream });
      const seconds = Number(response.headers.get("retry-after"));
      expect([18, 19, 20]).toContain(seconds);
      const error = await expectRejection(response, 429);
      expect(error.code).toBe("rate_limit_exceeded");
      expect(error.message).toContain(`try again in ${seconds}s`);
    }
    expect([slow.asked(), soon.asked()]).toEqual([1, 1]);
    const [, ...refused] = await gateway.usageRows();
    for (const row of refused) expect(row).toMatchObject({ outcome: "refused", attempts: 0 });
  });

  test.each(["401", "429-quota", "404"])(
    "disabled until an administrator acts (%s): every request gets that error",
    async (fault) => {
      const gateway = await start({ accounts: [{}, {}] });
      for (const upstream of gateway.upstreams) upstream.force(fault);
      for (const stream of [false, true, false]) {
        const response = await gateway.send({ stream, family: "responses" });
        expect(response.headers.get("retry-after")).toBeNull();
        expect(await expectRejection(response, 503)).toMatchObject({
          code: "no_available_account",
          message: expect.stringMatching(/^No account can serve the model `pooled` at the moment\./),
        });
      }
      expect(seenBy(gateway)).toEqual([1, 1]);
    },
  );

  test.each([
    ["last", PREFERRED, SPARE],
    ["first", SPARE, PREFERRED],
  ])(
    "down for different reasons, with the temporary one called %s: the client gets Retry-After",
    async (_when, parked, cooling) => {
      const soon = refusing(50);
      const gateway = await start({ accounts: [{ ...parked }, { ...cooling, url: soon.url }] });
      gateway.upstreams[0]?.force("401");
      for (const asked of [1, 2]) {
        const response = await gateway.send({});
        expect([asked, response.status]).toEqual([asked, 429]);
        await response.text();
      }
    },
  );

  test("cooling down, the earlier one called first: the client gets its retry time", async () => {
    const [soon, late] = [refusing(20), refusing(50)];
    const gateway = await start({
      accounts: [
        { ...PREFERRED, url: soon.url },
        { ...SPARE, url: late.url },
      ],
    });
    const response = await gateway.send({});
    expect(response.headers.get("retry-after")).toBe("20");
    await expectRejection(response, 429);
  });
});

test("streamed images that an upstream does not support do not block whole images", async () => {
  const { url, asked } = upstreamWith({ created: 1, data: [{ b64_json: "QUJD" }] });
  const gateway = await start({ accounts: [{ url }, { url }] });
  const draw = (stream: boolean) =>
    gateway.call("/v1/images/generations", { model: PUBLIC_MODEL, prompt: "A cat", stream });
  for (let i = 1; i <= 5; i++) {
    const responses = await expectRejection(await draw(true), 400);
    expect([responses.code, responses.param, asked()]).toEqual(["unsupported_parameter", "stream", i]);
  }
  expect((await draw(false)).status).toBe(200);
});
