/** A failing upstream is distinguished from a busy one: by the code, at once, and with the time of its next probe. */

import { describe, expect, test } from "bun:test";
import { expectRejection } from "../support/error-envelope.ts";
import { eventually } from "../support/eventually.ts";
import { type PooledGateway, type PoolSetup, seenBy, startPooledGateway } from "../support/pooled-gateway.ts";
import { asRecord } from "../support/sse-text.ts";
import { stopAfterEach } from "../support/stop-after-each.ts";
import { openSocketClient } from "../support/turn-client.ts";

const stopLater = stopAfterEach();

function start(setup: PoolSetup): Promise<PooledGateway> {
  return stopLater(startPooledGateway(setup));
}

/** Failures in a row, after which the account cools down for 4 to 6 s. */
async function bringDown(gateway: PooledGateway, fault = "500", failures = 2): Promise<void> {
  for (const upstream of gateway.upstreams) upstream.force(fault);
  for (let i = 0; i < failures; i++) expect((await gateway.send({})).status).toBe(502);
}

const SHORT_QUEUE = { group: { queue: { max_waiting: 10, timeout: "1s" } } };

describe("while the only account cools down after faults", () => {
  test.each<[string, number]>([
    ["500", 2],
    ["html", 2],
    ["rst@byte10", 3],
  ])("every request gets upstream_unavailable (%s)", async (fault, failures) => {
    const gateway = await start({ accounts: [{}], ...SHORT_QUEUE });
    await bringDown(gateway, fault, failures);
    for (const family of ["chat", "responses"] as const) {
      for (const stream of [false, true]) {
        const response = await gateway.send({ family, stream });
        const seconds = Number(response.headers.get("retry-after"));
        expect(await expectRejection(response, 503)).toMatchObject({
          code: "upstream_unavailable",
          message: expect.stringMatching(
            /^The upstream of the model `pooled` is failing, so this request was not sent\. Please try again in \d+s\.$/,
          ),
        });
        expect(seconds).toBeGreaterThanOrEqual(1);
        expect(seconds).toBeLessThanOrEqual(6);
      }
    }
    // A request that had waited for the end of the cool-down would have been the probe.
    expect(seenBy(gateway)).toEqual([failures]);
  });

  test("images and WebSocket turns get the same error", async () => {
    const gateway = await start({ accounts: [{}], ...SHORT_QUEUE });
    gateway.upstreams[0]?.force("500");
    const draw = () => gateway.call("/v1/images/generations", { model: "pooled", prompt: "A cat" });
    for (let i = 0; i < 2; i++) expect((await draw()).status).toBe(502);
    expect(await expectRejection(await draw(), 503)).toMatchObject({ code: "upstream_unavailable" });
    const client = await openSocketClient(gateway.url);
    const { last: frame } = await client.turn({ model: "pooled", input: "Hello" });
    expect(frame).toMatchObject({ type: "error", status: 503, error: { code: "upstream_unavailable" } });
    expect(asRecord(frame.headers)["retry-after"]).toMatch(/^[1-6]$/);
    client.close();
  });

  test("the failure that started the cool-down has Retry-After", async () => {
    const gateway = await start({ accounts: [{}], ...SHORT_QUEUE });
    gateway.upstreams[0]?.force("500");
    const responded: (string | null)[] = [];
    for (let i = 0; i < 2; i++) {
      const response = await gateway.send({});
      responded.push(response.headers.get("retry-after"));
      expect(await expectRejection(response, 502)).toMatchObject({ code: "upstream_error" });
    }
    expect(responded[0]).toBeNull();
    expect(responded[1]).toMatch(/^[4-6]$/);
  });

  test("the trace names the cause of the cool-down", async () => {
    const gateway = await start({ accounts: [{}], ...SHORT_QUEUE });
    await bringDown(gateway);
    const response = await gateway.send({});
    await response.text();
    const id = response.headers.get("x-request-id");
    const row = asRecord((await gateway.usageRows()).find(({ request_id }) => request_id === id));
    expect(row).toMatchObject({ error_code: "upstream_unavailable", outcome: "refused", attempts: 0 });
    expect(JSON.parse(String(row.trace)).candidates).toMatchObject([{ reason: "cooling", cause: "server" }]);
  });

  test("requests wait for the first probe, and a failed probe ends every wait", async () => {
    const gateway = await start({ accounts: [{}] });
    await bringDown(gateway);
    gateway.upstreams[0]?.force(null);
    const served = await Promise.all([1, 2, 3].map((n) => gateway.send({ stream: n > 1 })));
    expect(served.map(({ status }) => status)).toEqual([200, 200, 200]);
    await Promise.all(served.map((response) => response.text()));

    await bringDown(gateway);
    const waited = await Promise.all(
      [1, 2, 3, 4].map(async () => {
        const response = await gateway.send({});
        await response.text();
        return { status: response.status, retryAfter: Number(response.headers.get("retry-after")) };
      }),
    );
    // One of them was the probe; all of them get the time of the next one, 8 to 12 s later.
    expect(waited.map(({ status }) => status).toSorted()).toEqual([502, 503, 503, 503]);
    for (const { retryAfter } of waited) expect(retryAfter).toBeGreaterThanOrEqual(7);
    const probed = seenBy(gateway);
    for (let i = 0; i < 3; i++) {
      const response = await gateway.send({});
      expect(await expectRejection(response, 503)).toMatchObject({ code: "upstream_unavailable" });
    }
    // None of them waited for the next probe.
    expect(seenBy(gateway)).toEqual(probed);
  }, 60_000);
});

describe("mixed with healthy accounts", () => {
  test("requests wait for a busy account, and then get a rate limit error", async () => {
    const gateway = await start({
      accounts: [
        { priority: 1, models: { pooled: "fault/500" } },
        { priority: 2, models: { pooled: "sim-fast@first=60s" }, limits: { concurrency: 1 } },
      ],
      group: { queue: { max_waiting: 10, timeout: "300ms" } },
    });
    const leaving = new AbortController();
    const held = [1, 2].map(() => gateway.send({ signal: leaving.signal }).catch(() => null));
    await eventually(() => seenBy(gateway)[0] === 2 && gateway.upstreams[1]?.ledger.totals().inFlight === 1);
    expect(await expectRejection(await gateway.send({}), 429)).toMatchObject({ code: "rate_limit_exceeded" });
    leaving.abort();
    await Promise.all(held);
  });

  test("an account with a rejected credential does not change the error", async () => {
    const gateway = await start({ accounts: [{ priority: 1 }, { priority: 2 }], ...SHORT_QUEUE });
    gateway.upstreams[0]?.force("401");
    gateway.upstreams[1]?.force("500");
    for (let i = 0; i < 2; i++) expect((await gateway.send({})).status).toBe(502);
    expect(await expectRejection(await gateway.send({}), 503)).toMatchObject({
      code: "upstream_unavailable",
    });
  });
});
