/**
 * A client that disconnects from a reasoning response pays for the reasoning: exactly with `drain`, estimated with
 * `cancel`.
 */

import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { LedgerEntry } from "../../simulator/ledger.ts";
import type { UsageRow } from "../../src/store/usage/usage.ts";
import { eventually } from "../support/eventually.ts";
import { bill, type PaidGateway, PRICE, startPaidGateway } from "../support/paid-gateway.ts";
import type { GatewayOptions } from "../support/running-gateway.ts";
import { openSocketClient } from "../support/turn-client.ts";

setDefaultTimeout(60_000);

const running: PaidGateway[] = [];

afterEach(async () => {
  for (const gateway of running) {
    expect(await gateway.records.holds()).toBe(0);
    await gateway.records.expectReconciled();
  }
});
afterAll(() => Promise.all(running.map((gateway) => gateway.stop())));

/** 95% of the output is reasoning and is not shown. */
const HIDDEN = 5_000;
const STREAM = `sim-fast@hidden=${HIDDEN},events=200,interval=10ms`;
const WHOLE = `sim-fast@hidden=${HIDDEN},first=2s`;

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

type LeftBody = { model: string; stream?: boolean; [field: string]: unknown };

/** Disconnects from a stream after a few events, or from a whole response while the upstream works. */
async function leave(gateway: PaidGateway, path: string, body: LeftBody): Promise<void> {
  const before = gateway.simulator.ledger.totals().requests;
  const leaving = new AbortController();
  const asked = gateway.call(path, body, { signal: leaving.signal });
  asked.catch(() => {});
  await eventually(() => gateway.simulator.ledger.totals().requests > before);
  if (body.stream) {
    const reader = (await asked).body?.getReader();
    const decoder = new TextDecoder();
    for (let text = ""; text.split("\n\n").length <= 5; ) {
      const read = await reader?.read();
      if (read?.value === undefined) throw new Error(`the stream ended: ${text}`);
      text += decoder.decode(read.value, { stream: true });
    }
  } else await Bun.sleep(150);
  leaving.abort();
}

/** The same, from an upstream that cannot finish before the gateway notices, however slow the machine is. */
async function leaveUnfinished(gateway: PaidGateway, path: string, body: LeftBody): Promise<void> {
  gateway.simulator.force(body.stream ? "stall@chunk20" : "slow-headers@60s", 1);
  await leave(gateway, path, body);
}

/** Rows of earlier tests. */
const seenRows = new Set<unknown>();

/** The usage row of the abandoned request, and what its upstream produced. */
async function settled(gateway: PaidGateway): Promise<{ row: UsageRow; entry: LedgerEntry }> {
  const row = await eventually(async () => {
    const rows = await gateway.usageRows();
    const left = rows.find((row) => row.outcome === "client_gone" && !seenRows.has(row.request_id));
    return left === undefined ? null : gateway.records.findRow(String(left.request_id));
  });
  seenRows.add(row.requestId);
  await eventually(() => gateway.simulator.ledger.totals().inFlight, { equals: 0 });
  const entry = gateway.simulator.ledger.last();
  if (entry === null) throw new Error("nothing went upstream");
  expect((await gateway.records.charge(row.requestId))?.amountNano ?? 0n).toBe(row.chargedNano);
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

describe("by default a charging group drains the response and charges it exactly", () => {
  let gateway: PaidGateway;
  beforeAll(async () => {
    gateway = await start({ stream: STREAM, whole: WHOLE, picture: "sim-image@first=2s" });
  });

  test.each(FAMILIES)("a stream: %s", async (path, prompt) => {
    await leave(gateway, path, { model: "stream", ...prompt, stream: true });
    const { row, entry } = await settled(gateway);
    expect(entry).toMatchObject({ finished: true, reasoningTokens: HIDDEN });
    expect(row).toMatchObject({ usageSource: "upstream", reasoningTokens: HIDDEN, flags: [] });
    expect(row.chargedNano).toBe(cost(entry));
  });

  test.each(FAMILIES)("a whole response: %s", async (path, prompt) => {
    await leave(gateway, path, { model: "whole", ...prompt });
    const { row, entry } = await settled(gateway);
    expect(entry).toMatchObject({ finished: true, reasoningTokens: HIDDEN });
    expect(row.chargedNano).toBe(cost(entry));
  });

  test("images", async () => {
    await leave(gateway, "/v1/images/generations", { model: "picture", prompt: "A lighthouse", n: 2 });
    const { row, entry } = await settled(gateway);
    expect(entry).toMatchObject({ finished: true, images: 2 });
    expect(row).toMatchObject({ images: 2, flags: [] });
    // The upstream reports the tokens of the images, so these are charged.
    expect(row.chargedNano).toBe(cost({ ...row, images: 0 }));
    expect(row.outputTokens).toBe(entry.outputTokens);
  });

  test("a WebSocket turn", async () => {
    const socket = await openSocketClient(gateway.url);
    socket.send({ type: "response.create", model: "stream", input: "Tell me about ledgers", store: false });
    await eventually(() => socket.events.length > 5);
    socket.close();
    const { row, entry } = await settled(gateway);
    expect(entry).toMatchObject({ finished: true, reasoningTokens: HIDDEN });
    expect(row.chargedNano).toBe(cost(entry));
  });

  test("upstream work never exceeds the concurrency of the key", async () => {
    const gateway = await start({ paid: STREAM }, { limits: { concurrency: 1 }, queue: { max_waiting: 0 } });
    const [path, prompt] = CHAT;
    await leave(gateway, path, { model: "paid", ...prompt, stream: true });
    const again = () => gateway.call(path, { model: "paid", ...prompt, max_tokens: 16 });
    await Promise.all([again(), again(), again()].map(async (asked) => (await asked).text()));
    await eventually(() => gateway.simulator.ledger.totals().inFlight, { equals: 0 });
    expect(gateway.simulator.ledger.totals().peakInFlight).toBe(1);
    await eventually(() => gateway.records.holds(), { equals: 0 });
  });
});

test("by default an unpaid group aborts the upstream call", async () => {
  const gateway = await start({ paid: STREAM }, { billing: { charge: "none" } });
  const [path, prompt] = CHAT;
  await leaveUnfinished(gateway, path, { model: "paid", ...prompt, stream: true });
  const { row, entry } = await settled(gateway);
  expect(entry).toMatchObject({ finished: false, abortedByClient: true });
  expect(row).toMatchObject({ chargedNano: 0n, usageSource: "partial", flags: ["partial"] });
});

describe("with `cancel` the upstream call is aborted, and the estimated reasoning is charged", () => {
  /** One for each test that must not know the observations of another. */
  const MODELS = {
    stream: `sim-fast@hidden=${HIDDEN},events=60,interval=5ms`,
    bounded: `sim-fast@hidden=${HIDDEN},events=60,interval=6ms`,
    whole: `sim-fast@hidden=${HIDDEN}`,
    picture: "sim-image",
    unobserved: STREAM,
    unreasoned: "sim-fast@events=60,interval=5ms",
    visible: "sim-reason@events=60,interval=5ms",
  };
  let gateway: PaidGateway;
  beforeAll(async () => {
    gateway = await start(MODELS, { on_disconnect: "cancel" });
  });

  async function learn(path: string, body: LeftBody): Promise<void> {
    for (let i = 0; i < 3; i++) await (await gateway.call(path, body)).text();
  }

  test.each(FAMILIES)("a stream: %s", async (path, prompt) => {
    const body = { model: "stream", ...prompt, stream: true };
    await learn(path, body);
    await leaveUnfinished(gateway, path, body);
    const { row, entry } = await settled(gateway);
    expect(entry).toMatchObject({ finished: false, abortedByClient: true });
    expect(row).toMatchObject({ usageSource: "partial", flags: ["estimated", "partial"] });
    expect(row.reasoningTokens).toBeGreaterThanOrEqual(HIDDEN);
    expect(row.reasoningTokens).toBeLessThan(HIDDEN * 1.25);
    expect(row.chargedNano).toBe(cost(row));
  });

  test("a whole response", async () => {
    const [path, prompt] = CHAT;
    const body = { model: "whole", ...prompt };
    await learn(path, body);
    await leaveUnfinished(gateway, path, body);
    const { row, entry } = await settled(gateway);
    expect(entry).toMatchObject({ finished: false });
    expect(row).toMatchObject({ usageSource: "partial", flags: ["estimated", "partial"] });
    expect(row.reasoningTokens).toBeGreaterThanOrEqual(HIDDEN);
    expect(row.chargedNano).toBe(cost(row));
  });

  test("requested images", async () => {
    await leaveUnfinished(gateway, "/v1/images/generations", {
      model: "picture",
      prompt: "A lighthouse",
      n: 2,
    });
    const { row } = await settled(gateway);
    expect(row).toMatchObject({ images: 2, usageSource: "partial", flags: ["estimated", "partial"] });
    expect(row.chargedNano).toBeGreaterThanOrEqual(bill([[2_000_000, "0.04"]]));
  });

  test("without observations the estimate follows the requested effort", async () => {
    const [path, prompt] = RESPONSES;
    const body = { model: "unobserved", ...prompt, stream: true, reasoning: { effort: "high" } };
    await leaveUnfinished(gateway, path, body);
    const { row } = await settled(gateway);
    expect(row.flags).toEqual(["estimated", "partial"]);
    expect(row.reasoningTokens).toBeGreaterThan(4_000);
  });

  test("nothing is added for a model without reasoning", async () => {
    const [path, prompt] = CHAT;
    const body = { model: "unreasoned", ...prompt, stream: true };
    await learn(path, body);
    await leaveUnfinished(gateway, path, body);
    const { row } = await settled(gateway);
    expect(row).toMatchObject({ reasoningTokens: 0, flags: ["partial"] });
  });

  test("nothing is added for visible reasoning", async () => {
    const [path, prompt] = CHAT;
    const body = { model: "visible", ...prompt, stream: true };
    await learn(path, body);
    await leaveUnfinished(gateway, path, body);
    const { row, entry } = await settled(gateway);
    expect(row.outputTokens).toBeLessThanOrEqual(entry.outputTokens + 10);
  });

  test("never more than the hold", async () => {
    const [path, prompt] = CHAT;
    const body = { model: "bounded", ...prompt, stream: true };
    await learn(path, body);
    await leaveUnfinished(gateway, path, { ...body, max_tokens: 5_020 });
    const { row } = await settled(gateway);
    expect(row.outputTokens).toBe(5_020);
    expect(row.flags).not.toContain("overrun");
  });
});

describe("if no drain is available", () => {
  test("the estimated reasoning is charged", async () => {
    const gateway = await start(
      { paid: `sim-fast@hidden=${HIDDEN},events=60,interval=5ms` },
      { on_disconnect: "drain" },
      { drainsMax: 0 },
    );
    const [path, prompt] = CHAT;
    await (await gateway.call(path, { model: "paid", ...prompt, stream: true })).text();
    await leaveUnfinished(gateway, path, { model: "paid", ...prompt, stream: true });
    const { row, entry } = await settled(gateway);
    expect(entry.finished).toBe(false);
    expect(row.reasoningTokens).toBeGreaterThanOrEqual(HIDDEN);
  });

  test("one user cannot occupy the drains of all others", async () => {
    // The first drain lasts until the other clients have disconnected.
    const slow = `sim-fast@hidden=${HIDDEN},events=200,interval=20ms`;
    const gateway = await start({ paid: slow }, {}, { drainsPerUserMax: 1 });
    const [path, prompt] = CHAT;
    for (let i = 0; i < 3; i++) await leave(gateway, path, { model: "paid", ...prompt, stream: true });
    const rows = await eventually(async () => {
      const all = await gateway.usageRows();
      return all.length === 3 ? all : null;
    });
    expect(rows.filter(({ usage_source }) => usage_source === "upstream")).toHaveLength(1);
  });
});
