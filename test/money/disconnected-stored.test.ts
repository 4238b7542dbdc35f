/** A stored response whose client disconnects is charged in full, or cannot be retrieved. */

import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { LedgerEntry } from "../../simulator/ledger.ts";
import type { UsageRow } from "../../src/store/usage/usage.ts";
import { eventStream, responsesEvent, startGatewayWithResponses } from "../support/canned-upstream.ts";
import { eventually } from "../support/eventually.ts";
import { bill, type PaidGateway, PRICE, SIMULATOR, startPaidGateway } from "../support/paid-gateway.ts";
import type { GatewayOptions } from "../support/running-gateway.ts";
import { openSocketClient } from "../support/turn-client.ts";

setDefaultTimeout(60_000);

const running: PaidGateway[] = [];

afterEach(async () => {
  for (const gateway of running.splice(0)) {
    expect(await gateway.records.holds()).toBe(0);
    expect((await gateway.records.wallet()).heldNano).toBe(0n);
    await gateway.records.expectReconciled();
    await gateway.stop();
  }
});

const HIDDEN = 3_000;
const goesOn = (duration: string) => `sim-fast@hidden=${HIDDEN},events=400,interval=5ms,detached=${duration}`;
const GOES_ON = goesOn("700ms");
/** For tests that look at the response before it has ended. */
const GOES_ON_LONG = goesOn("2s");
const STOPS = `sim-fast@hidden=${HIDDEN},events=400,interval=5ms`;
const CANCEL = { on_disconnect: "cancel" };

async function start(
  upstream: string,
  group: object = CANCEL,
  limits: GatewayOptions["limits"] = {},
  websocket = false,
): Promise<PaidGateway> {
  const account = {
    name: "sim",
    kind: "openai",
    base_url: SIMULATOR,
    credential: "credential",
    private_network: true,
    websocket,
    models: { paid: upstream },
  };
  const gateway = await startPaidGateway(
    { balance: "10.00", models: { paid: upstream }, accounts: [account], group },
    { limits },
  );
  running.push(gateway);
  return gateway;
}

interface Left {
  requestId: string;
  responseId: string;
}

/** Reads the id of a response from its stream. `leave` closes the stream. */
async function open(gateway: PaidGateway): Promise<Left & { leave(): void }> {
  const leaving = new AbortController();
  const body = { model: "paid", input: "Tell me about ledgers", stream: true };
  const response = await gateway.call("/v1/responses", body, { signal: leaving.signal });
  const reader = response.body?.getReader();
  let text = "";
  while (!text.includes("output_text.delta")) text += new TextDecoder().decode((await reader?.read())?.value);
  const responseId = /"id":"(resp_[^"]+)"/.exec(text)?.[1] ?? "";
  return {
    requestId: response.headers.get("x-request-id") ?? "",
    responseId,
    leave: () => leaving.abort(),
  };
}

async function leaveStored(gateway: PaidGateway): Promise<Left> {
  const { leave, ...left } = await open(gateway);
  leave();
  return left;
}

async function look(gateway: PaidGateway, responseId: string) {
  const response = await gateway.call(`/v1/responses/${responseId}`);
  const body = (await response.json()) as { status?: string; output?: unknown[] };
  return { code: response.status, status: body.status ?? null };
}

function produced(gateway: PaidGateway): LedgerEntry {
  const entry = gateway.simulator.ledger.entries().findLast(({ model }) => model !== "");
  if (entry === undefined) throw new Error("nothing went upstream");
  return entry;
}

async function expectPaidInFull(gateway: PaidGateway, requestId: string): Promise<UsageRow> {
  const row = await gateway.records.row(requestId);
  await eventually(() => gateway.simulator.ledger.totals().inFlight, { equals: 0 });
  const entry = produced(gateway);
  expect(entry.reasoningTokens).toBe(HIDDEN);
  expect(row).toMatchObject({ usageSource: "upstream", outputTokens: entry.outputTokens, flags: [] });
  const cost = bill([
    [entry.inputTokens, PRICE.input],
    [entry.outputTokens, PRICE.output],
  ]);
  expect(row.chargedNano).toBe(cost);
  expect((await gateway.records.charge(requestId))?.amountNano).toBe(cost);
  return row;
}

describe("if the upstream continues after a disconnect", () => {
  test.each([
    ["on_disconnect is cancel", CANCEL, {}],
    ["on_disconnect is drain", {}, {}],
    ["no drain is available", {}, { drainsMax: 0 }],
  ] as const)("the response can be retrieved and is charged in full (%s)", async (_, group, limits) => {
    const gateway = await start(GOES_ON, group, limits);
    const { requestId, responseId } = await leaveStored(gateway);
    await eventually(async () => (await look(gateway, responseId)).status, { equals: "completed" });
    const row = await expectPaidInFull(gateway, requestId);
    expect(row).toMatchObject({ outcome: "client_gone", responseId });
    expect((await look(gateway, responseId)).status).toBe("completed");
  });

  test("the response is charged without being retrieved", async () => {
    const gateway = await start(GOES_ON_LONG);
    const { requestId } = await leaveStored(gateway);
    expect((await gateway.records.wallet()).heldNano).toBeGreaterThan(0n);
    await expectPaidInFull(gateway, requestId);
  });

  test("the response is charged once when several clients retrieve it concurrently", async () => {
    const gateway = await start(GOES_ON_LONG);
    const { requestId, responseId } = await leaveStored(gateway);
    const before = (await gateway.records.wallet()).balanceNano;
    await eventually(async () => {
      const all = await Promise.all(Array.from({ length: 10 }, () => look(gateway, responseId)));
      return all.every(({ status }) => status === "completed");
    });
    const { chargedNano } = await expectPaidInFull(gateway, requestId);
    expect(before - (await gateway.records.wallet()).balanceNano).toBe(chargedNano);
  });

  test("the response cannot be deleted before it is charged, neither during the stream nor after", async () => {
    const gateway = await start(GOES_ON_LONG);
    const { requestId, responseId, leave } = await open(gateway);
    const remove = () => gateway.call(`/v1/responses/${responseId}`, undefined, { method: "DELETE" });
    expect((await remove()).status).toBe(400);
    leave();
    await Bun.sleep(100);
    expect((await remove()).status).toBe(400);
    await expectPaidInFull(gateway, requestId);
    expect((await remove()).status).toBe(200);
  });

  test("the response occupies the concurrency of its key", async () => {
    const gateway = await start(GOES_ON, { ...CANCEL, limits: { concurrency: 1 } });
    const { requestId } = await leaveStored(gateway);
    const body = { model: "paid", input: "Hello", max_output_tokens: 16, store: false };
    await eventually(async () => (await gateway.call("/v1/responses", body)).status, { equals: 200 });
    expect(await gateway.records.findRow(requestId)).not.toBeNull();
    await expectRowPaidInFull(gateway, requestId);
  });

  test.each([
    ["by HTTP", false],
    ["over a socket", true],
  ])("a WebSocket turn is charged the same way, with the upstream called %s", async (_, websocket) => {
    const gateway = await start(GOES_ON, CANCEL, {}, websocket);
    const socket = await openSocketClient(gateway.url);
    socket.create({ model: "paid", input: "Tell me about ledgers" });
    const created = await socket.until("response.output_text.delta");
    const responseId = String((created[0]?.response as { id?: string } | undefined)?.id);
    socket.close();
    await eventually(async () => (await look(gateway, responseId)).status, { equals: "completed" });
    const rows = await gateway.usageRows();
    expect(rows).toHaveLength(1);
    await expectPaidInFull(gateway, String(rows[0]?.request_id));
  });

  test("a response whose upstream connection broke is charged the same way", async () => {
    const gateway = await start(`fault/rst@chunk9,hidden=${HIDDEN},events=60,detached=300ms`);
    const response = await gateway.call("/v1/responses", { model: "paid", input: "Hello", stream: true });
    const text = await response.text();
    expect(text).toContain("response.failed");
    const responseId = /"id":"(resp_[^"]+)"/.exec(text)?.[1] ?? "";
    await eventually(async () => (await look(gateway, responseId)).status, { equals: "completed" });
    const requestId = response.headers.get("x-request-id") ?? "";
    expect(await expectPaidInFull(gateway, requestId)).toMatchObject({ outcome: "upstream_cut" });
  });
});

test("an upstream that disconnects and stays down does not keep the slot and the hold for long", async () => {
  const events = [
    responsesEvent("response.created", { response: { id: "resp_1", object: "response", model: "up" } }),
    responsesEvent("response.output_text.delta", { delta: "hello" }),
  ];
  const gateway = await startGatewayWithResponses(
    ({ method }) => (method === "POST" ? eventStream(events) : new Response("down", { status: 502 })),
    { limits: { concurrency: 1 }, queue: { max_waiting: 0 } },
  );
  running.push(gateway);
  const body = { model: "paid", input: "Hello", stream: true };
  const cut = await gateway.call("/v1/responses", body);
  expect(await cut.text()).toContain("response.failed");
  const again = await gateway.call("/v1/responses", { ...body, store: false });
  expect(again.status).toBe(200);
  await again.text();
  const row = await eventually(() => gateway.records.findRow(cut.headers.get("x-request-id") ?? ""));
  expect(row).toMatchObject({ outcome: "upstream_cut", responseId: null, flags: ["partial"] });
});

async function expectRowPaidInFull(gateway: PaidGateway, requestId: string): Promise<void> {
  const row = await gateway.records.row(requestId);
  expect(row).toMatchObject({ usageSource: "upstream", reasoningTokens: HIDDEN });
}

test("if the upstream stops with its client, the id is forgotten and the estimate is charged", async () => {
  const gateway = await start(STOPS);
  await (await gateway.call("/v1/responses", { model: "paid", input: "Hi", stream: true })).text();
  const { requestId, responseId } = await leaveStored(gateway);
  const row = await gateway.records.row(requestId);
  expect(row).toMatchObject({ outcome: "client_gone", responseId: null, flags: ["estimated", "partial"] });
  expect(row.reasoningTokens).toBeGreaterThanOrEqual(HIDDEN);
  expect((await look(gateway, responseId)).code).toBe(404);
});

test("a response that does not end in time is deleted upstream, and its id is forgotten", async () => {
  const gateway = await start(
    `sim-fast@hidden=${HIDDEN},events=400,interval=5ms,detached=30s`,
    {},
    { drainOnDisconnectMs: 200 },
  );
  const { requestId, responseId } = await leaveStored(gateway);
  const row = await gateway.records.row(requestId);
  expect(row).toMatchObject({ outcome: "client_gone", responseId: null, usageSource: "partial" });
  expect((await look(gateway, responseId)).code).toBe(404);
  await eventually(async () => {
    const asked = await fetch(`${gateway.simulator.url}/responses/${responseId}`, {
      headers: { authorization: "Bearer credential" },
    });
    return asked.status === 404;
  });
});

test("a response beyond its hold is stopped and charged the upstream's usage", async () => {
  const response = { id: "resp_1", object: "response", model: "up", output: [] };
  const delta = responsesEvent("response.output_text.delta", { delta: "one two three four five " });
  const used = { input_tokens: 5, output_tokens: 300, total_tokens: 305 };
  const asked: string[] = [];
  const gateway = await startGatewayWithResponses(
    ({ method, url }) => {
      if (method === "POST" && !url.endsWith("/cancel")) {
        const created = responsesEvent("response.created", { response });
        return eventStream([created, delta.repeat(60), new Promise(() => {})]);
      }
      asked.push(method);
      const status = asked.includes("POST") ? "cancelled" : "in_progress";
      return Response.json({ ...response, status, usage: status === "cancelled" ? used : null });
    },
    {},
    { keepAliveTickMs: 50 },
  );
  running.push(gateway);
  const body = { model: "paid", input: "Hi", stream: true, max_output_tokens: 16 };
  const received = await gateway.call("/v1/responses", body);
  expect(await received.text()).toContain("insufficient_quota");
  const row = await gateway.records.row(received.headers.get("x-request-id") ?? "");
  expect(asked).toContain("POST");
  expect(row).toMatchObject({ outcome: "failed", usageSource: "upstream", outputTokens: 300 });
});

test("at shutdown a followed response is settled, and its id is forgotten", async () => {
  const gateway = await start(GOES_ON);
  running.pop();
  const { db } = gateway.installation;
  const close = db.close;
  db.close = async () => {};
  const { requestId } = await leaveStored(gateway);
  await Bun.sleep(100);
  await gateway.stop();
  expect(await gateway.records.holds()).toBe(0);
  expect(await gateway.records.findRow(requestId)).toMatchObject({ outcome: "client_gone" });
  await close();
});
