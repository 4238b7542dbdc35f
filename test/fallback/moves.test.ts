/** What a request keeps when it moves to another step, and what it leaves behind. */

import { expect, setDefaultTimeout, test } from "bun:test";
import { type Clock, systemClock } from "../../src/base/clock.ts";
import { createTokenClient } from "../support/console-client.ts";
import { type PaidGateway, PRICE } from "../support/paid-gateway.ts";
import { asRecord } from "../support/sse-text.ts";
import { stopAfterEach } from "../support/stop-after-each.ts";
import { openSocketClient } from "../support/turn-client.ts";
import {
  ask,
  billRow,
  expectNothingHeld,
  type FallbackSetup,
  readServed,
  startFallbackGateway,
} from "./fallback-gateway.ts";

setDefaultTimeout(60_000);

const stopLater = stopAfterEach(expectNothingHeld);

function start(setup: FallbackSetup = {}, options: object = {}): Promise<PaidGateway> {
  return stopLater(startFallbackGateway(setup, options));
}

const readReport = async (gateway: PaidGateway) => asRecord(await (await gateway.call("/v1/usage")).json());

test("limits of key and user count the request once, and those of the first group no longer", async () => {
  const gateway = await start({
    key: { limits: { rpm: 10, concurrency: 2, windows: [{ per: "5h", usd: "1.00" }] } },
    user: { limits: { rpm: 20, windows: [{ per: "1d", usd: "2.00" }] } },
    saver: { group_limits: { rpm: 30, windows: [{ per: "1d", requests: 40 }] } },
    standard: { group_limits: { concurrency: 1, windows: [{ per: "5h", usd: "0.02" }] } },
  });
  const { row } = await readServed(gateway, await ask(gateway));
  const limits = asRecord((await readReport(gateway)).limits);
  const used = (scope: string) => asRecord(asRecord(limits[scope]).rpm).used;
  expect([used("key"), used("user"), used("group")]).toEqual([1, 1, 0]);
  const windows = asRecord(limits.key).windows as unknown[];
  expect(asRecord(asRecord(windows[0]).usd).used).toBe(`${Number(row.costNano) / 1e9}`);
  expect(asRecord(asRecord(limits.key).concurrency).used).toBe(0);
  // The concurrency limit of the step's group was returned, and its window counts.
  for (let i = 0; i < 3; i++) await readServed(gateway, await ask(gateway));
});

test("a window of the key is raised to the price of the step, and a step that it does not afford is skipped", async () => {
  const gateway = await start({
    key: { limits: { windows: [{ per: "5h", usd: "0.0005" }] } },
    saver: { billing: { charge: "balance", multiplier: "0.000001" } },
  });
  const { row } = await readServed(gateway, await ask(gateway, { max_completion_tokens: 16 }));
  expect(Number(row.costNano)).toBeWithin(200_000, 500_000);
  const response = await ask(gateway);
  expect(asRecord(asRecord(await response.json()).error).tried).toEqual([
    { group: "saver", model: "asked", reason: "failing" },
    { group: "standard", model: "asked", reason: "limits" },
  ]);
});

test("an Idempotency-Key is claimed once: a repeat returns the response of the step", async () => {
  const gateway = await start();
  const key = { "idempotency-key": "one" };
  const first = await readServed(gateway, await ask(gateway, {}, key));
  expect(first.group).toBe("standard");
  const repeat = await ask(gateway, {}, key);
  expect(repeat.headers.get("idempotency-replayed")).toBe("true");
  expect(await repeat.text()).toBe(first.text);
  const { balanceNano } = await gateway.records.wallet();
  expect(balanceNano).toBe(5_000_000_000n - first.row.chargedNano);
});

test("a paid first step and an unpaid second one: the hold ends, and nothing is charged", async () => {
  const gateway = await start({ standard: { billing: { charge: "none" } } });
  for (const stream of [false, true]) {
    const { row } = await readServed(gateway, await ask(gateway, { stream }));
    expect([row.payer, row.chargedNano, row.fallbackStep]).toEqual([null, 0n, 1]);
  }
  expect((await gateway.records.wallet()).heldNano).toBe(0n);
});

test("a payer who affords one step is never asked for two", async () => {
  // The hold of the first step takes most of the balance, and that of the second one needs nearly all of it.
  const gateway = await start({
    user: { balance: "0.0025" },
    saver: { billing: { charge: "balance", multiplier: "2" } },
  });
  const { row } = await readServed(gateway, await ask(gateway, { max_completion_tokens: 100 }));
  expect(row.chargedNano).toBe(billRow(row, PRICE, "2"));
});

test("if all steps fail, the client receives the error of the first one and nothing is charged", async () => {
  const gateway = await start({
    first: "fault/429",
    steps: [{ group: "standard", when: ["busy"] }],
    modelSteps: [{ model: "other", when: ["failing"] }],
    standard: { accounts: ["first"] },
  });
  for (const stream of [false, true]) {
    const response = await ask(gateway, { stream });
    expect(response.status).toBe(429);
    const id = response.headers.get("x-request-id") ?? "";
    const { tried, code } = asRecord(asRecord(await response.json()).error);
    expect(code).toBe("rate_limit_exceeded");
    expect(tried).toEqual([
      { group: "saver", model: "asked", reason: "busy" },
      { group: "standard", model: "asked", reason: "busy" },
    ]);
    const row = await gateway.records.row(id);
    expect([row.chargedNano, row.fallbackStep, row.publicModel]).toEqual([0n, null, "asked"]);
  }
  expect(await gateway.records.wallet()).toEqual({ balanceNano: 5_000_000_000n, heldNano: 0n });
});

test("an error of a step names it, and what its policy has changed", async () => {
  const gateway = await start({
    second: "fault/400",
    policies: [{ name: "short", output_tokens: { max: 16 } }],
    standard: { request_policy: "short" },
  });
  const response = await ask(gateway, { max_completion_tokens: 100 });
  expect(response.status).toBe(400);
  const names = ["group", "step", "fallback-reason", "policy"];
  expect(names.map((name) => response.headers.get(`x-gateway-${name}`))).toEqual([
    "standard",
    "1",
    "failing",
    "output_tokens=16",
  ]);
});

test("a conversation stays on the step that served it, and begins at the first step again later", async () => {
  let offsetMs = 0;
  const clock: Clock = { ...systemClock, monotonicMs: () => systemClock.monotonicMs() + offsetMs };
  const setup = { first: "sim-fast", steps: [{ group: "standard", when: ["failing"], stay: "60s" }] };
  const gateway = await start(setup, { clock });
  const session = { "session-id": "conversation-1" };
  gateway.simulator.force("500", 1);
  const moved = await readServed(gateway, await ask(gateway, {}, session));
  expect(moved.group).toBe("standard");
  const stays = await ask(gateway, {}, session);
  expect(stays.headers.get("x-gateway-fallback-reason")).toBe("failing");
  expect((await readServed(gateway, stays)).group).toBe("standard");
  offsetMs = 60_000;
  expect((await readServed(gateway, await ask(gateway, {}, session))).group).toBe("saver");
});

test("a turn on a WebSocket changes its step, and the next turn continues the conversation", async () => {
  const gateway = await start();
  const socket = await openSocketClient(gateway.url);
  const first = await socket.turn({ model: "asked", store: false, input: "One" });
  expect(first.last.type).toBe("response.completed");
  const second = await socket.turn({
    model: "asked",
    store: false,
    previous_response_id: first.responseId,
    input: "Two",
  });
  expect(second.last.type).toBe("response.completed");
  socket.close();
  const rows = await gateway.usageRows();
  expect(rows.map((row) => row.fallback_step)).toEqual([1, 1]);
});

test("a metric counts the requests that a step has served", async () => {
  const gateway = await start();
  await readServed(gateway, await ask(gateway));
  await readServed(gateway, await ask(gateway, { stream: true }));
  const admin = await createTokenClient(gateway, "root@example.com", "read", "admin");
  const lines = await (await admin.fetch("/metrics")).text();
  expect(lines).toContain(
    'gateway_fallbacks_total{from="saver/asked",to="standard/asked",reason="failing"} 2',
  );
});

test("a stream that fails after its first content stays at its step", async () => {
  const gateway = await start({ first: "fault/rst@chunk4" });
  const response = await ask(gateway, { stream: true });
  expect([response.status, response.headers.get("x-gateway-step")]).toEqual([200, "0"]);
  expect(await response.text()).toContain('"error"');
});

/** The account of the step holds a response, and the first step works again. */
async function storeAtStep(gateway: PaidGateway): Promise<string> {
  gateway.simulator.force("500", 1);
  const response = await gateway.call("/v1/responses", { model: "asked", input: "One", store: true });
  const { group, text } = await readServed(gateway, response);
  expect(group).toBe("standard");
  return String(asRecord(JSON.parse(text)).id);
}

test("a response that an account of a step stores is retrieved, and continued at the price of the step", async () => {
  const gateway = await start({
    first: "sim-fast",
    key: { limits: { concurrency: 2, windows: [{ per: "5h", usd: "1.00" }] } },
    standard: { group_limits: { rpm: 10 } },
  });
  const id = await storeAtStep(gateway);
  const retrieved = await gateway.call(`/v1/responses/${id}`);
  expect([retrieved.status, asRecord(await retrieved.json()).id]).toEqual([200, id]);
  for (const stream of [false, true]) {
    const response = await gateway.call("/v1/responses", {
      model: "asked",
      input: "Two",
      previous_response_id: id,
      stream,
    });
    const { row, group } = await readServed(gateway, response);
    expect([group, row.fallbackStep, row.fallbackReason]).toEqual(["standard", 1, null]);
    expect(response.headers.get("x-gateway-step")).toBe("1");
    expect(row.chargedNano).toBe(billRow(row, PRICE, "2"));
  }
  expect((await readServed(gateway, await ask(gateway))).group).toBe("saver");
  const deleted = await gateway.call(`/v1/responses/${id}`, undefined, { method: "DELETE" });
  expect([deleted.status, asRecord(await deleted.json()).deleted]).toEqual([200, true]);
});

test("the conversation of a step is not continued there without the permission of the client", async () => {
  const gateway = await start({ first: "sim-fast" });
  const id = await storeAtStep(gateway);
  const body = { model: "asked", input: "Two", previous_response_id: id };
  for (const headers of [{ "x-gateway-fallback": "none" }, { "x-gateway-max-price": "3.9" }]) {
    const response = await gateway.call("/v1/responses", body, { headers });
    const error = asRecord(asRecord(await response.json()).error);
    expect([response.status, error.code]).toEqual([400, "previous_response_not_found"]);
  }
  const background = await gateway.call("/v1/responses", { ...body, background: true });
  expect([background.status, await background.text()]).toEqual([400, expect.stringContaining("stateful")]);
});

test("a conversation that only a step can continue ends with the error of that step", async () => {
  const gateway = await start({ first: "sim-fast", modelSteps: [{ model: "other", when: ["failing"] }] });
  const id = await storeAtStep(gateway);
  gateway.simulator.force("500", 3);
  const response = await gateway.call("/v1/responses", {
    model: "asked",
    input: "Two",
    previous_response_id: id,
  });
  const error = asRecord(asRecord(await response.json()).error);
  expect([response.status, error.code, error.tried]).toEqual([
    502,
    "upstream_error",
    [{ group: "standard", model: "asked", reason: "failing" }],
  ]);
  gateway.simulator.force(null);
});
