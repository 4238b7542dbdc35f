/** The cost of turns over an upstream WebSocket, compared with what the upstream produced. */

import { afterEach, expect, test } from "bun:test";
import { eventually } from "../support/eventually.ts";
import { bill, type PaidGateway, PRICE, SIMULATOR, startPaidGateway } from "../support/paid-gateway.ts";
import { openSocketClient, type SocketClient } from "../support/turn-client.ts";

let gateway: PaidGateway;
let socket: SocketClient;

afterEach(async () => {
  socket.close();
  await gateway.stop();
});

const MODELS = {
  paid: "sim-fast",
  long: "sim-fast@events=60,interval=5ms",
  stalls: "fault/stall@chunk9",
  cut: "fault/rst@chunk9",
  uncounted: "fault/no-usage",
} as const;

async function start(group: object = {}): Promise<void> {
  const account = {
    name: "sim",
    kind: "openai",
    base_url: SIMULATOR,
    credential: "credential",
    private_network: true,
    websocket: true,
    models: MODELS,
  };
  gateway = await startPaidGateway({ balance: "10.00", models: MODELS, accounts: [account], group });
  socket = await openSocketClient(gateway.url);
}

const turn = (model: keyof typeof MODELS, more: object = {}) => ({
  model,
  input: "Hello",
  store: false,
  ...more,
});

/** The only usage row once it is written, and its charge. */
async function settled() {
  const row = await eventually(async () => {
    const [first] = await gateway.usageRows();
    return first === undefined ? null : gateway.records.findRow(String(first.request_id));
  });
  const charge = await gateway.records.charge(row.requestId);
  return { row, charged: charge?.amountNano ?? 0n };
}

const computeCost = (input: number, output: number) =>
  bill([
    [input, PRICE.input],
    [output, PRICE.output],
  ]);

test("a completed turn is charged as the upstream counted it", async () => {
  await start();
  await socket.turn(turn("paid"));
  const { row, charged } = await settled();
  const entry = gateway.simulator.ledger.last();
  expect(entry?.socket).toBe(1);
  expect([row.outcome, row.inputTokens, row.outputTokens]).toEqual([
    "completed",
    entry?.inputTokens ?? 0,
    entry?.outputTokens ?? 0,
  ]);
  expect(charged).toBe(computeCost(row.inputTokens, row.outputTokens));
  await gateway.records.expectReconciled();
});

test("a turn without usage is counted locally, with the same result", async () => {
  await start();
  await socket.turn(turn("uncounted"));
  const { row, charged } = await settled();
  expect(row.outputTokens).toBe(gateway.simulator.ledger.last()?.outputTokens ?? 0);
  expect(charged).toBe(computeCost(row.inputTokens, row.outputTokens));
});

test("a disconnect with on_disconnect cancel is charged the delivered content", async () => {
  await start({ on_disconnect: "cancel" });
  socket.create(turn("stalls"));
  await eventually(() => socket.events.length, { equals: 9 });
  socket.close();
  const { row, charged } = await settled();
  await eventually(() => gateway.simulator.ledger.last()?.abortedByClient);
  expect([row.outcome, row.outputTokens]).toEqual([
    "client_gone",
    gateway.simulator.ledger.last()?.outputTokens ?? 0,
  ]);
  expect(row.outputTokens).toBeGreaterThan(0);
  expect(charged).toBe(computeCost(row.inputTokens, row.outputTokens));
  expect(await gateway.records.holds()).toBe(0);
});

test("a disconnect with on_disconnect drain is read to its end and charged in full", async () => {
  await start({ on_disconnect: "drain" });
  socket.create(turn("long"));
  await socket.until("response.output_text.delta");
  socket.close();
  const { row, charged } = await settled();
  const entry = gateway.simulator.ledger.last();
  expect(entry).toMatchObject({ finished: true, abortedByClient: false });
  expect([row.outcome, row.outputTokens]).toEqual(["client_gone", entry?.outputTokens ?? 0]);
  expect(charged).toBe(computeCost(row.inputTokens, row.outputTokens));
});

test("a turn that is cut off is charged for the received content", async () => {
  await start();
  const { last } = await socket.turn(turn("cut"));
  expect(last.type).toBe("response.failed");
  const { row, charged } = await settled();
  expect([row.outcome, row.outputTokens]).toEqual([
    "upstream_cut",
    gateway.simulator.ledger.last()?.outputTokens ?? 0,
  ]);
  expect(charged).toBe(computeCost(row.inputTokens, row.outputTokens));
});

test("a retry on a new or forgetful upstream socket is one request and one charge", async () => {
  await start();
  const first = await socket.turn(turn("paid"));
  gateway.simulator.force("forgets", 1);
  const second = await socket.turn(turn("paid", { previous_response_id: first.responseId }));
  gateway.simulator.force("connection-limit", 1);
  await socket.turn(turn("paid", { previous_response_id: second.responseId }));
  const rows = await gateway.usageRows();
  expect(rows).toHaveLength(3);
  const { totals } = gateway.simulator.ledger.snapshot();
  expect(totals.requests).toBe(5);
  const sum = (field: string) => rows.reduce((all, row) => all + Number(row[field]), 0);
  expect([sum("input_tokens"), sum("output_tokens")]).toEqual([totals.inputTokens, totals.outputTokens]);
  expect(await gateway.records.holds()).toBe(0);
  await gateway.records.expectReconciled();
});
