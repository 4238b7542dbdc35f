/** Twenty turns on one socket are twenty requests: recorded, charged and limited separately. */

import { afterEach, expect, test } from "bun:test";
import {
  bill,
  type PaidGateway,
  type PaidSetup,
  PRICE,
  SIMULATOR,
  startPaidGateway,
} from "../support/paid-gateway.ts";
import { openSocketClient, type SocketClient } from "../support/turn-client.ts";

const TURNS = 20;

let gateway: PaidGateway | null = null;
let socket: SocketClient | null = null;

afterEach(async () => {
  socket?.close();
  await gateway?.stop();
  socket = null;
  gateway = null;
});

const account = (websocket: boolean) => ({
  name: "sim",
  kind: "openai",
  base_url: SIMULATOR,
  credential: "credential",
  private_network: true,
  websocket,
  models: { paid: "sim-fast" },
});

async function start(setup: PaidSetup): Promise<{ gateway: PaidGateway; socket: SocketClient }> {
  gateway = await startPaidGateway({ balance: "10.00", ...setup });
  socket = await openSocketClient(gateway.url);
  return { gateway, socket };
}

test.each([
  ["by HTTP", false],
  ["over a socket", true],
])(
  "each turn has its own usage row, charge and request id, with the upstream called %s",
  async (_, websocket) => {
    const { gateway, socket } = await start({ accounts: [account(websocket)] });
    const { balanceNano: before } = await gateway.records.wallet();
    const warm = await socket.turn({ model: "paid", store: false, generate: false, input: [] });
    let previous = warm.responseId;
    for (let i = 0; i < TURNS; i++) {
      const turn = await socket.turn({
        model: "paid",
        store: false,
        previous_response_id: previous,
        input: `Question ${i}`,
      });
      expect(turn.last.type).toBe("response.completed");
      previous = turn.responseId;
    }

    const rows = await gateway.usageRows();
    expect(rows).toHaveLength(TURNS);
    expect(new Set(rows.map(({ request_id }) => request_id)).size).toBe(TURNS);
    let sum = 0n;
    for (const row of rows) {
      expect(row).toMatchObject({ outcome: "completed", status: 200, attempts: 1, stream: 1 });
      const { inputTokens, cachedTokens, outputTokens } = await gateway.records.row(String(row.request_id));
      const cost = bill([
        [inputTokens - cachedTokens, PRICE.input],
        [cachedTokens, PRICE.cached_input],
        [outputTokens, PRICE.output],
      ]);
      expect((await gateway.records.charge(String(row.request_id)))?.amountNano).toBe(cost);
      sum += cost;
    }
    expect(sum).toBeGreaterThan(0n);
    expect(before - (await gateway.records.wallet()).balanceNano).toBe(sum);
    expect(await gateway.records.holds()).toBe(0);
    await gateway.records.expectReconciled();
    // The upstream received the whole conversation, or continued it: its count equals the rows.
    const { totals } = gateway.simulator.ledger.snapshot();
    expect(totals.requests).toBe(TURNS);
    expect(rows.map(({ input_tokens }) => Number(input_tokens)).reduce((a, b) => a + b)).toBe(
      totals.inputTokens,
    );
  },
);

test("turns that the upstream rejects count against the limits", async () => {
  const { gateway, socket } = await start({
    models: { paid: "fault/400" },
    accounts: [{ ...account(false), models: { paid: "fault/400" } }],
    group: { limits: { rpm: 1 } },
  });
  const statuses: unknown[] = [];
  for (let i = 0; i < 5; i++) {
    const { last } = await socket.turn({ model: "paid", input: `Question ${i}` });
    statuses.push("status" in last ? last.status : last.type);
  }
  expect(statuses).toEqual([400, 429, 429, 429, 429]);
  expect(gateway.simulator.ledger.totals().requests).toBe(1);
});

test("limits count each turn, and a turn over the limit gets retry-after", async () => {
  const { gateway, socket } = await start({ group: { limits: { rpm: TURNS } } });
  for (let i = 0; i < TURNS; i++) {
    const { last } = await socket.turn({ model: "paid", input: `Question ${i}` });
    expect(last.type).toBe("response.completed");
  }
  const refused = await socket.turn({ model: "paid", input: "One more" });
  expect(refused.last).toMatchObject({
    type: "error",
    status: 429,
    error: { code: "rate_limit_exceeded" },
    headers: { "retry-after": expect.stringMatching(/^[1-9]\d?$/), "x-request-id": expect.any(String) },
  });
  const rows = await gateway.usageRows();
  expect(rows.map(({ outcome }) => outcome)).toEqual([...Array(TURNS).fill("completed"), "refused"]);
  expect(await gateway.records.holds()).toBe(0);
});
