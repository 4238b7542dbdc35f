/** A client that disconnects pays for what was produced: the output so far with `cancel`, all of it with `drain`. */

import { describe, expect, setDefaultTimeout, test } from "bun:test";
import type { LedgerEntry } from "../../simulator/ledger.ts";
import { eventually } from "../support/eventually.ts";
import {
  bill,
  type PaidGateway,
  type PaidSetup,
  PRICE,
  SIMULATOR,
  startPaidGateway,
} from "../support/paid-gateway.ts";
import type { GatewayOptions } from "../support/running-gateway.ts";
import { stopAfterEach } from "../support/stop-after-each.ts";

setDefaultTimeout(60_000);

const stopLater = stopAfterEach();

function start(
  policy: "cancel" | "drain",
  upstream: string,
  limits: GatewayOptions["limits"] = {},
  setup: Pick<PaidSetup, "accounts"> = {},
): Promise<PaidGateway> {
  const models = { paid: { upstream, price: PRICE } };
  return stopLater(
    startPaidGateway({ balance: "10.00", models, group: { on_disconnect: policy }, ...setup }, { limits }),
  );
}

const account = (name: string, upstream: string, more: object) => ({
  name,
  kind: "openai",
  base_url: SIMULATOR,
  credential: "credential",
  private_network: true,
  models: { paid: upstream },
  ...more,
});

const FAMILIES = [
  ["/v1/chat/completions", { messages: [{ role: "user", content: "Tell me about ledgers" }] }],
  ["/v1/responses", { input: "Tell me about ledgers" }],
] as const;

/** Disconnects from a stream after a few events, or from a whole response while the upstream works. */
async function leave(gateway: PaidGateway, path: string, prompt: object, stream: boolean): Promise<void> {
  const leaving = new AbortController();
  const body = { model: "paid", ...prompt, stream };
  const asked = gateway.call(path, body, { signal: leaving.signal });
  asked.catch(() => {});
  await eventually(() => gateway.simulator.ledger.totals().requests > 0);
  if (stream) {
    const reader = (await asked).body?.getReader();
    for (let i = 0; i < 5; i++) await reader?.read();
  }
  leaving.abort();
}

/** The only usage row once it is written, and what the upstream produced. */
async function settled(gateway: PaidGateway) {
  const id = await eventually(async () => (await gateway.usageRows())[0]?.request_id);
  await eventually(() => gateway.simulator.ledger.totals().inFlight, { equals: 0 });
  const row = await gateway.records.row(String(id));
  // A request without a model retrieves an abandoned response.
  const entry = gateway.simulator.ledger.entries().findLast(({ model }) => model !== "");
  if (entry === undefined) throw new Error("nothing went upstream");
  expect(await gateway.usageRows()).toHaveLength(1);
  expect((await gateway.records.charge(row.requestId))?.amountNano ?? 0n).toBe(row.chargedNano);
  expect((await gateway.records.wallet()).heldNano).toBe(0n);
  await gateway.records.expectReconciled();
  return { row, entry };
}

const computeCost = ({ inputTokens, outputTokens }: Pick<LedgerEntry, "inputTokens" | "outputTokens">) =>
  bill([
    [inputTokens, PRICE.input],
    [outputTokens, PRICE.output],
  ]);

describe("cancel", () => {
  test.each(FAMILIES)(
    "aborts the upstream of a stream and charges the delivered content: %s",
    async (path, prompt) => {
      const gateway = await start("cancel", "sim-fast@events=2000,interval=5ms");
      await leave(gateway, path, prompt, true);
      const { row, entry } = await settled(gateway);
      expect(entry).toMatchObject({ finished: false, abortedByClient: true });
      expect(row).toMatchObject({ outcome: "client_gone", usageSource: "partial", flags: ["partial"] });
      expect(row.inputTokens).toBe(entry.inputTokens);
      expect(row.outputTokens).toBeGreaterThan(0);
      // What was on the wire when the client disconnected is the upstream's alone.
      expect(row.outputTokens).toBeLessThanOrEqual(entry.outputTokens);
      expect(entry.outputTokens - row.outputTokens).toBeLessThan(100);
      expect(row.chargedNano).toBe(computeCost(row));
    },
  );

  test.each(FAMILIES)(
    "aborts the upstream of a whole response and charges the input: %s",
    async (path, prompt) => {
      const gateway = await start("cancel", "sim-fast@first=5s");
      await leave(gateway, path, prompt, false);
      const { row } = await settled(gateway);
      expect(row).toMatchObject({ outcome: "client_gone", outputTokens: 0, flags: ["partial"] });
      expect(row.inputTokens).toBeGreaterThan(0);
      expect(row.chargedNano).toBe(bill([[row.inputTokens, PRICE.input]]));
    },
  );
});

describe("drain", () => {
  test.each(FAMILIES)("reads a stream to its end and charges all of it: %s", async (path, prompt) => {
    const gateway = await start("drain", "sim-fast@events=200,interval=10ms");
    await leave(gateway, path, prompt, true);
    const { row, entry } = await settled(gateway);
    expect(entry).toMatchObject({ finished: true, abortedByClient: false });
    expect(row).toMatchObject({ outcome: "client_gone", usageSource: "upstream", flags: [] });
    expect(row.chargedNano).toBe(computeCost(entry));
  });

  test.each(FAMILIES)("waits for a whole response and charges all of it: %s", async (path, prompt) => {
    const gateway = await start("drain", "sim-fast@first=2s");
    await leave(gateway, path, prompt, false);
    const { row, entry } = await settled(gateway);
    expect(entry).toMatchObject({ finished: true, abortedByClient: false });
    expect(row).toMatchObject({ outcome: "client_gone", usageSource: "upstream", flags: [] });
    expect(row.chargedNano).toBe(computeCost(entry));
  });

  test("keeps the hold while it reads", async () => {
    const gateway = await start("drain", "sim-fast@events=200,interval=10ms");
    const [path, prompt] = FAMILIES[0];
    await leave(gateway, path, prompt, true);
    expect((await gateway.records.wallet()).heldNano).toBeGreaterThan(0n);
    await settled(gateway);
  });

  test.each([true, false])(
    "stops at its timeout and charges the received content (stream: %p)",
    async (stream) => {
      const upstream = stream ? "sim-fast@events=2000,interval=5ms" : "sim-fast@first=8s";
      const gateway = await start("drain", upstream, { drainOnDisconnectMs: 100, keepAliveTickMs: 50 });
      const [path, prompt] = FAMILIES[1];
      await leave(gateway, path, prompt, stream);
      const { row, entry } = await settled(gateway);
      expect(entry.finished).toBe(false);
      expect(row).toMatchObject({ outcome: "client_gone", usageSource: "partial" });
      expect(row.outputTokens > 0).toBe(stream);
      expect(row.chargedNano).toBe(computeCost(row));
    },
  );

  test.each([true, false])("stops at once if too many drains are active (stream: %p)", async (stream) => {
    const upstream = stream ? "sim-fast@events=2000,interval=5ms" : "sim-fast@first=8s";
    const gateway = await start("drain", upstream, { drainsMax: 0 });
    const [path, prompt] = FAMILIES[1];
    await leave(gateway, path, prompt, stream);
    const { row, entry } = await settled(gateway);
    expect(entry.finished).toBe(false);
    expect(row).toMatchObject({ outcome: "client_gone", usageSource: "partial" });
  });
});

test.each(["cancel", "drain"] as const)(
  "a client that disconnects before dispatch pays nothing (%s)",
  async (policy) => {
    const upstream = "sim-fast@first=2s";
    const accounts = [account("sim", upstream, { limits: { concurrency: 1 } })];
    const gateway = await start(policy, upstream, {}, { accounts });
    const [path, prompt] = FAMILIES[0];
    const body = { model: "paid", ...prompt };
    const first = gateway.call(path, body);
    await eventually(() => gateway.simulator.ledger.totals().requests, { equals: 1 });
    const leaving = new AbortController();
    const waiting = gateway.call(path, body, { signal: leaving.signal }).catch(() => null);
    await eventually(() => gateway.records.holds(), { equals: 2 });
    leaving.abort();
    await waiting;
    await (await first).text();
    const rows = await eventually(async () => {
      const all = await gateway.usageRows();
      return all.length === 2 ? all : null;
    });
    const left = rows.find(({ outcome }) => outcome === "client_gone");
    const row = await gateway.records.row(String(left?.request_id));
    expect(row).toMatchObject({ attempts: 0, costNano: 0n, chargedNano: 0n, upstreamNano: 0n });
    expect(gateway.simulator.ledger.totals().requests).toBe(1);
    await gateway.records.expectReconciled();
  },
);

test("no failover happens after the client has disconnected", async () => {
  const upstream = "sim-fast@first=2s";
  const accounts = ["first", "second"].map((name, i) => account(name, upstream, { priority: i + 1 }));
  const gateway = await start("drain", upstream, {}, { accounts });
  gateway.simulator.force("rst@byte0");
  const [path, prompt] = FAMILIES[0];
  await leave(gateway, path, prompt, false);
  const { row } = await settled(gateway);
  expect(row).toMatchObject({ outcome: "client_gone", attempts: 1, chargedNano: 0n });
  expect(gateway.simulator.ledger.totals().requests).toBe(1);
});
