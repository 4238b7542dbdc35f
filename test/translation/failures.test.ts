/** Translated requests that fail, break off or cannot be expressed, and which account serves them. */

import { afterEach, describe, expect, test } from "bun:test";
import { eventually } from "../support/eventually.ts";
import {
  type AccountSetup,
  type PooledGateway,
  seenBy,
  startPooledGateway,
} from "../support/pooled-gateway.ts";

let gateway: PooledGateway | null = null;

afterEach(async () => {
  await gateway?.stop();
  gateway = null;
});

/** Accounts with one interface each. */
async function start(
  ...accounts: readonly [iface: string, model: string, more?: object][]
): Promise<PooledGateway> {
  const setups = accounts.map(([iface, model, more = {}]): AccountSetup & { interfaces: string[] } => ({
    interfaces: [iface],
    models: { pooled: model },
    ...more,
  }));
  gateway = await startPooledGateway({ accounts: setups });
  return gateway;
}

test("an account that has the interface itself is preferred at equal priority", async () => {
  const running = await start(["chat", "sim-fast"], ["responses", "sim-fast"]);
  for (let i = 0; i < 4; i++) expect((await running.send({ family: "responses" })).status).toBe(200);
  expect(seenBy(running)).toEqual([0, 4]);
});

test("a translated account serves while the native one fails, and the client sees nothing of it", async () => {
  const running = await start(["responses", "fault/500"], ["chat", "sim-fast"]);
  const text = await (await running.send({ family: "responses", stream: true })).text();
  expect(text).toContain("response.completed");
  expect(text).not.toContain("response.failed");
  expect(seenBy(running)).toEqual([1, 1]);
});

test("an error inside a translated stream before content fails over", async () => {
  const running = await start(["chat", "fault/capacity-in-stream"], ["chat", "sim-fast", { priority: 2 }]);
  const text = await (await running.send({ family: "responses", stream: true })).text();
  expect(text).toContain("response.completed");
  expect(seenBy(running)).toEqual([1, 1]);
});

describe.each(["fault/error-in-stream", "fault/cut@chunk3", "fault/rst@chunk3", "fault/truncated"])(
  "a chat upstream with %s",
  (fault) => {
    test("ends the Responses stream with exactly one response.failed", async () => {
      const running = await start(["chat", fault]);
      const text = await (await running.send({ family: "responses", stream: true })).text();
      expect(text.match(/^event: response\.(failed|completed|incomplete)$/gm)).toEqual([
        "event: response.failed",
      ]);
      expect(text).toEndWith("data: [DONE]\n\n");
      const rows = await running.usageRows();
      expect(rows).toHaveLength(1);
      expect(String(rows[0]?.outcome)).toMatch(/^(failed|upstream_cut)$/);
    });
  },
);

test("output without reported usage is counted by the gateway", async () => {
  const running = await start(["chat", "fault/no-usage"]);
  await (await running.send({ family: "responses", stream: true })).text();
  const row = (await running.usageRows()).at(-1);
  expect(Number(row?.output_tokens)).toBeGreaterThan(10);
});

test("an upstream is aborted when the client of a translated stream disconnects", async () => {
  const running = await start(["chat", "sim-fast@events=400,interval=10ms"]);
  const abort = new AbortController();
  const response = await running.send({ family: "responses", stream: true, signal: abort.signal });
  const reader = response.body?.getReader();
  await reader?.read();
  abort.abort();
  await reader?.cancel().catch(() => {});
  await eventually(() => running.upstreams[0]?.ledger.last()?.abortedByClient);
  await eventually(async () => (await running.usageRows())[0]?.outcome, { equals: "client_gone" });
});

test.each([
  ["background", { background: true }],
  ["conversation", { conversation: "conv_1" }],
  ["prompt", { prompt: { id: "pmpt_1" } }],
  ["input[0]", { input: [{ type: "item_reference", id: "msg_1" }] }],
])("%s is rejected with its name, and no upstream is called", async (param, more) => {
  const running = await start(["chat", "sim-fast"]);
  const response = await running.send({ family: "responses", more });
  expect(response.status).toBe(400);
  expect(await response.json()).toMatchObject({ error: { code: "unsupported_parameter", param } });
  expect(seenBy(running)).toEqual([0]);
});

test("a request that cannot be expressed goes to an account that has the interface itself", async () => {
  const running = await start(["chat", "sim-fast"], ["responses", "sim-fast", { priority: 5 }]);
  const response = await running.send({ family: "responses", more: { background: true } });
  expect(response.status).toBe(200);
  expect(seenBy(running)[0]).toBe(0);
});

test("endpoints that are no conversations need an account with the interface itself", async () => {
  const running = await start(["chat", "sim-fast"]);
  const response = await running.call("/v1/responses/input_tokens", { model: "pooled", input: "hi" });
  expect(response.status).toBe(400);
  expect(seenBy(running)).toEqual([0]);
});

test("a conversation that began on a translated account continues on a native one", async () => {
  const running = await start(["chat", "sim-fast"], ["responses", "sim-fast", { priority: 5 }]);
  const first = (await (await running.send({ family: "responses" })).json()) as { id: string };
  running.upstreams[0]?.force("500", 5);
  const more = { input: "And then?", previous_response_id: first.id };
  const second = await running.send({ family: "responses", more });
  expect(second.status).toBe(200);
  expect(await second.json()).toMatchObject({ previous_response_id: first.id });
  const ledger = running.upstreams[1]?.ledger;
  const body = JSON.parse(Buffer.from(ledger?.findBody(ledger.last()?.id ?? "") ?? []).toString());
  expect(body.previous_response_id).toBeUndefined();
  expect(body.input.map(({ role }: { role: string }) => role)).toEqual(["user", "assistant", "user"]);
});
