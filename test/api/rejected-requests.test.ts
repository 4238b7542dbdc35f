/** What a client sees of rejected requests that have no separate usage row. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { limits } from "../../src/config/limits/product-limits.ts";
import { eventually } from "../support/eventually.ts";
import { SIMULATOR, startPaidGateway } from "../support/paid-gateway.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";

let gateway: RunningGateway;

beforeAll(async () => {
  gateway = await startTestGateway({
    limits: { rejectionRows: { rowsPerMinute: 2, kindsMax: 100, modelsPerHour: 50 } },
    file: `
models:
  - { id: fast, interfaces: [chat] }
accounts:
  - { name: sim, kind: openai, base_url: "\${SIMULATOR_URL}", credential: a, private_network: true, models: { fast: sim-fast } }
groups:
  - { name: default, models: [fast], accounts: [sim] }
keys:
  - { name: test, group: default, secret: ${TEST_KEY}, limits: { rpm: 1 } }
`,
  });
});

afterAll(() => gateway.stop());

test("a rejected request without its own usage row returns a 404 with the reason", async () => {
  const ids: string[] = [];
  for (let i = 0; i < 5; i++) {
    const response = await gateway.call("/v1/chat/completions", {
      model: "fast",
      messages: [{ role: "user", content: "Hello" }],
    });
    await response.arrayBuffer();
    ids.push(response.headers.get("x-request-id") ?? "");
  }
  const recorded = await gateway.call(`/v1/requests/${ids[1]}`);
  expect(await recorded.json()).toMatchObject({ id: ids[1], outcome: "refused", request_count: 1 });
  const counted = await gateway.call(`/v1/requests/${ids[4]}`);
  expect(counted.status).toBe(404);
  expect(await counted.json()).toMatchObject({
    error: { code: "request_not_found", message: expect.stringContaining("separate record") },
  });
});

describe.each([
  ["every hold is a row", limits.writeBehind.busyHolds],
  ["holds are in memory", 0],
] as const)("requests that are rejected after their hold, while %s", (_, busyHolds) => {
  test("release the hold and write no more rows than others", async () => {
    const paid = await startPaidGateway(
      {
        balance: "100",
        models: { paid: "sim-fast@first=3s" },
        accounts: [
          {
            name: "sim",
            kind: "openai",
            base_url: SIMULATOR,
            credential: "credential",
            private_network: true,
            models: { paid: "sim-fast@first=3s" },
            limits: { concurrency: 1 },
          },
        ],
        group: { queue: { max_waiting: 0, timeout: "1s" } },
      },
      {
        limits: {
          rejectionRows: { rowsPerMinute: 2, kindsMax: 100, modelsPerHour: 50 },
          writeBehind: { ...limits.writeBehind, busyHolds },
        },
      },
    );
    try {
      const body = { model: "paid", messages: [{ role: "user", content: "Hello" }], max_tokens: 50 };
      const served = paid.call("/v1/chat/completions", body);
      await eventually(() => (paid.simulator.ledger.last() === null ? null : true));
      for (let i = 0; i < 20; i++) {
        const refused = await paid.call("/v1/chat/completions", body);
        await refused.arrayBuffer();
        expect(refused.status).toBeGreaterThanOrEqual(400);
      }
      expect((await served).status).toBe(200);
      const rows = await paid.usageRows();
      expect(rows.filter(({ outcome }) => outcome === "completed")).toHaveLength(1);
      // A counted row is written when its minute ends, which may be now.
      const separate = rows.filter(
        ({ outcome, request_count }) => outcome === "refused" && request_count === 1,
      );
      const perMinute = Map.groupBy(separate, ({ at_ms }) => Math.floor(Number(at_ms) / 60_000));
      expect(Math.max(...[...perMinute.values()].map(({ length }) => length))).toBe(2);
      expect(await paid.records.holds()).toBe(0);
      expect((await paid.records.wallet()).heldNano).toBe(0n);
      await paid.records.expectReconciled();
    } finally {
      await paid.stop();
    }
  });
});
