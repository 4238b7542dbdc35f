/** A client that leaves a reasoning answer pays for the reasoning, too: exactly with `drain`, as learnt with `cancel`. */

import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { LedgerEntry } from "../../simulator/ledger.ts";
import type { UsageRow } from "../../src/store/usage/usage.ts";
import { eventually } from "../support/eventually.ts";
import { bill, type PaidGateway, PRICE, startPaidGateway } from "../support/paid-gateway.ts";
import type { GatewayOptions } from "../support/running-gateway.ts";
import { openSocketClient } from "../support/turn-client.ts";

setDefaultTimeout(60_000);

const running: PaidGateway[] = [];

afterEach(async () => {
  for (const gateway of running.splice(0)) {
    expect(await gateway.books.holds()).toBe(0);
    await gateway.books.expectAgreement();
    await gateway.stop();
  }
});

/** Nineteen parts of twenty are thought, and never shown. */
const HIDDEN = 5_000;
const STREAM = `sim-fast@hidden=${HIDDEN},events=200,interval=10ms`;
const WHOLE = `sim-fast@hidden=${HIDDEN},first=1s`;

async function start(
  models: Readonly<Record<string, string>>,
  group: object = {},
  limits: GatewayOptions["limits"] = {},
): Promise<PaidGateway> {
  const priced = Object.fromEntries(
    Object.entries(models).map(([id, upstream]) => [id, { upstream, price: { ...PRICE, image: "0.04" } }]),
  );
  const gateway = await startPaidGateway({ balance: "10.00", models: priced, group }, { limits });
  running.push(gateway);
  return gateway;
}

const CHAT = [
  "/v1/chat/completions",
  { messages: [{ role: "user", content: "Tell me about ledgers" }] },
] as const;
const RESPONSES = ["/v1/responses", { input: "Tell me about ledgers", store: false }] as const;
const FAMILIES = [CHAT, RESPONSES];

/** Leaves a stream after a few events, or a whole answer while its upstream works on it. */
async function leave(
  gateway: PaidGateway,
  path: string,
  body: { stream?: boolean; [field: string]: unknown },
) {
  const before = gateway.simulator.ledger.totals().requests;
  const leaving = new AbortController();
  const asked = gateway.call(path, { model: "paid", ...body }, { signal: leaving.signal });
  asked.catch(() => {});
  await eventually(() => gateway.simulator.ledger.totals().requests > before);
  if (body.stream) {
    const reader = (await asked).body?.getReader();
    for (let i = 0; i < 5; i++) await reader?.read();
  } else await Bun.sleep(150);
  leaving.abort();
}

/** The row of the request that was left, and what its upstream produced for it. */
async function settled(gateway: PaidGateway): Promise<{ row: UsageRow; entry: LedgerEntry }> {
  const row = await eventually(async () => {
    const rows = await gateway.usageRows();
    const left = rows.find(({ outcome }) => outcome === "client_gone");
    return left === undefined ? null : gateway.books.findRow(String(left.request_id));
  });
  await eventually(() => gateway.simulator.ledger.totals().inFlight === 0);
  const entry = gateway.simulator.ledger.last();
  if (entry === null) throw new Error("nothing went upstream");
  expect((await gateway.books.charge(row.requestId))?.amountNano ?? 0n).toBe(row.chargedNano);
  return { row, entry };
}

const cost = ({
  inputTokens,
  outputTokens,
  images,
}: Pick<LedgerEntry, "inputTokens" | "outputTokens" | "images">) =>
  bill([
    [inputTokens, PRICE.input],
    [outputTokens, PRICE.output],
    [images * 1_000_000, "0.04"],
  ]);

describe("by default, where a group charges, the answer is read to its end and charged exactly", () => {
  test.each(FAMILIES)("a stream: %s", async (path, prompt) => {
    const gateway = await start({ paid: STREAM });
    await leave(gateway, path, { ...prompt, stream: true });
    const { row, entry } = await settled(gateway);
    expect(entry).toMatchObject({ finished: true, reasoningTokens: HIDDEN });
    expect(row).toMatchObject({ usageSource: "upstream", reasoningTokens: HIDDEN, flags: [] });
    expect(row.chargedNano).toBe(cost(entry));
  });

  test.each(FAMILIES)("a whole answer: %s", async (path, prompt) => {
    const gateway = await start({ paid: WHOLE });
    await leave(gateway, path, prompt);
    const { row, entry } = await settled(gateway);
    expect(entry).toMatchObject({ finished: true, reasoningTokens: HIDDEN });
    expect(row.chargedNano).toBe(cost(entry));
  });

  test("images", async () => {
    const gateway = await start({ paid: "sim-image@first=1s" });
    await leave(gateway, "/v1/images/generations", { prompt: "A lighthouse", n: 2 });
    const { row, entry } = await settled(gateway);
    expect(entry).toMatchObject({ finished: true, images: 2 });
    expect(row).toMatchObject({ images: 2, flags: [] });
    // The upstream reports their tokens, so they are paid by these.
    expect(row.chargedNano).toBe(cost({ ...row, images: 0 }));
    expect(row.outputTokens).toBe(entry.outputTokens);
  });

  test("a turn on a WebSocket", async () => {
    const gateway = await start({ paid: STREAM });
    const socket = await openSocketClient(gateway.url);
    socket.send({ type: "response.create", model: "paid", input: "Tell me about ledgers", store: false });
    await eventually(() => socket.events.length > 5);
    socket.close();
    const { row, entry } = await settled(gateway);
    expect(entry).toMatchObject({ finished: true, reasoningTokens: HIDDEN });
    expect(row.chargedNano).toBe(cost(entry));
  });

  test("no more work runs upstream than the key's concurrency allows", async () => {
    const gateway = await start({ paid: STREAM }, { limits: { concurrency: 1 }, queue: { max_waiting: 0 } });
    const [path, prompt] = CHAT;
    await leave(gateway, path, { ...prompt, stream: true });
    const again = () => gateway.call(path, { model: "paid", ...prompt, max_tokens: 16 });
    await Promise.all([again(), again(), again()].map(async (asked) => (await asked).text()));
    await eventually(() => gateway.simulator.ledger.totals().inFlight === 0);
    expect(gateway.simulator.ledger.totals().peakInFlight).toBe(1);
    await eventually(async () => (await gateway.books.holds()) === 0);
  });
});

test("where a group does not charge, the default still ends the upstream's work", async () => {
  const gateway = await start({ paid: STREAM }, { billing: { charge: "none" } });
  const [path, prompt] = CHAT;
  await leave(gateway, path, { ...prompt, stream: true });
  const { row, entry } = await settled(gateway);
  expect(entry).toMatchObject({ finished: false, abortedByClient: true });
  expect(row).toMatchObject({ chargedNano: 0n, usageSource: "partial", flags: ["partial"] });
});

describe("with `cancel` the upstream is stopped, and reasoning is charged as it was learnt", () => {
  const CANCEL = { on_disconnect: "cancel" };

  async function learn(gateway: PaidGateway, path: string, prompt: object, stream: boolean): Promise<void> {
    for (let i = 0; i < 3; i++) {
      await (await gateway.call(path, { model: "paid", ...prompt, stream })).text();
    }
  }

  test.each(FAMILIES)("a stream: %s", async (path, prompt) => {
    const gateway = await start({ paid: `sim-fast@hidden=${HIDDEN},events=60,interval=5ms` }, CANCEL);
    await learn(gateway, path, prompt, true);
    await leave(gateway, path, { ...prompt, stream: true });
    const { row, entry } = await settled(gateway);
    expect(entry).toMatchObject({ finished: false, abortedByClient: true });
    expect(row).toMatchObject({ usageSource: "partial", flags: ["estimated", "partial"] });
    expect(row.reasoningTokens).toBeGreaterThanOrEqual(HIDDEN);
    expect(row.reasoningTokens).toBeLessThan(HIDDEN * 1.25);
    expect(row.chargedNano).toBe(cost(row));
  });

  test("a whole answer", async () => {
    const gateway = await start({ paid: `sim-fast@hidden=${HIDDEN},first=400ms` }, CANCEL);
    const [path, prompt] = CHAT;
    await learn(gateway, path, prompt, false);
    await leave(gateway, path, prompt);
    const { row, entry } = await settled(gateway);
    expect(entry).toMatchObject({ finished: false });
    expect(row).toMatchObject({ usageSource: "partial", flags: ["estimated", "partial"] });
    expect(row.reasoningTokens).toBeGreaterThanOrEqual(HIDDEN);
    expect(row.chargedNano).toBe(cost(row));
  });

  test("pictures that were asked for", async () => {
    const gateway = await start({ paid: "sim-image@first=2s" }, CANCEL);
    await leave(gateway, "/v1/images/generations", { prompt: "A lighthouse", n: 2 });
    const { row } = await settled(gateway);
    expect(row).toMatchObject({ images: 2, usageSource: "partial", flags: ["estimated", "partial"] });
    expect(row.chargedNano).toBeGreaterThanOrEqual(bill([[2_000_000, "0.04"]]));
  });

  test("before anything is learnt, by the effort that the request asks for", async () => {
    const gateway = await start({ paid: STREAM }, CANCEL);
    const [path, prompt] = RESPONSES;
    await leave(gateway, path, { ...prompt, stream: true, reasoning: { effort: "high" } });
    const { row } = await settled(gateway);
    expect(row.flags).toEqual(["estimated", "partial"]);
    expect(row.reasoningTokens).toBeGreaterThan(4_000);
  });

  test("nothing is added for a model that does not reason", async () => {
    const gateway = await start({ paid: "sim-fast@events=60,interval=5ms" }, CANCEL);
    const [path, prompt] = CHAT;
    await learn(gateway, path, prompt, true);
    await leave(gateway, path, { ...prompt, stream: true });
    const { row } = await settled(gateway);
    expect(row).toMatchObject({ reasoningTokens: 0, flags: ["partial"] });
  });

  test("nothing is added for reasoning that is shown", async () => {
    const gateway = await start({ paid: "sim-reason@events=60,interval=5ms" }, CANCEL);
    const [path, prompt] = CHAT;
    await learn(gateway, path, prompt, true);
    await leave(gateway, path, { ...prompt, stream: true });
    const { row, entry } = await settled(gateway);
    expect(row.outputTokens).toBeLessThanOrEqual(entry.outputTokens + 10);
  });

  test("and never more than was held for", async () => {
    const gateway = await start({ paid: `sim-fast@hidden=${HIDDEN},events=60,interval=5ms` }, CANCEL);
    const [path, prompt] = CHAT;
    await learn(gateway, path, prompt, true);
    await leave(gateway, path, { ...prompt, stream: true, max_tokens: 5_020 });
    const { row } = await settled(gateway);
    expect(row.outputTokens).toBe(5_020);
    expect(row.flags).not.toContain("overrun");
  });
});

describe("where there is no room to read on", () => {
  test("the learnt reasoning is charged", async () => {
    const gateway = await start(
      { paid: `sim-fast@hidden=${HIDDEN},events=60,interval=5ms` },
      { on_disconnect: "drain" },
      { drainsMax: 0 },
    );
    const [path, prompt] = CHAT;
    await (await gateway.call(path, { model: "paid", ...prompt, stream: true })).text();
    await leave(gateway, path, { ...prompt, stream: true });
    const { row, entry } = await settled(gateway);
    expect(entry.finished).toBe(false);
    expect(row.reasoningTokens).toBeGreaterThanOrEqual(HIDDEN);
  });

  test("one user does not take the places of all others", async () => {
    const gateway = await start({ paid: STREAM }, {}, { drainsPerUserMax: 1 });
    const [path, prompt] = CHAT;
    for (let i = 0; i < 3; i++) await leave(gateway, path, { ...prompt, stream: true });
    const rows = await eventually(async () => {
      const all = await gateway.usageRows();
      return all.length === 3 ? all : null;
    });
    expect(rows.filter(({ usage_source }) => usage_source === "upstream")).toHaveLength(1);
  });
});
