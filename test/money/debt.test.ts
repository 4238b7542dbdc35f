/**
 * Requests that cost more than their hold: what cannot be counted is held at its upper estimate, and the rest becomes
 * debt.
 */

import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { topUp } from "../../src/billing/operations/operations.ts";
import { parseUsd, usdText } from "../../src/money/nano.ts";
import { findUserByEmail } from "../../src/store/identity/users.ts";
import { expectRejection } from "../support/error-envelope.ts";
import { eventually } from "../support/eventually.ts";
import {
  bill,
  doneId,
  PAYER,
  type PaidGateway,
  type PaidSetup,
  PRICE,
  startPaidGateway,
} from "../support/paid-gateway.ts";
import { type GatewayOptions, TEST_KEY } from "../support/running-gateway.ts";
import { stopAfterEach } from "../support/stop-after-each.ts";

setDefaultTimeout(60_000);

const stopLater = stopAfterEach();

/** A file costs $0.15 to read, and could cost a context window of 128,000 tokens: $0.32. */
const FILE_TOKENS = 60_000;
const models = {
  parked: "sim-fast@events=4000,interval=20ms",
  reader: { upstream: `sim-fast@file=${FILE_TOKENS},events=5`, more: { context_tokens: 128_000 } },
};

function start(setup: PaidSetup, limits: GatewayOptions["limits"] = {}): Promise<PaidGateway> {
  const group = { on_disconnect: "cancel", ...setup.group };
  return stopLater(startPaidGateway({ models, ...setup, group }, { limits }));
}

const fileRequest = {
  model: "reader",
  max_output_tokens: 32,
  input: [{ role: "user", content: [{ type: "input_file", file_url: "https://example.com/big.pdf" }] }],
};
const readFile = (gateway: PaidGateway) => gateway.call("/v1/responses", fileRequest);

/** Holds nearly a dollar by an output limit that it never reaches, and continues until it is aborted. */
async function park(gateway: PaidGateway): Promise<AbortController> {
  const leaving = new AbortController();
  const messages = [{ role: "user", content: "Hello" }];
  const body = { model: "parked", messages, stream: true, n: 8, max_tokens: 12_200 };
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${TEST_KEY}`, "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: leaving.signal,
  });
  expect(response.status).toBe(200);
  response.body?.pipeTo(new WritableStream()).catch(() => {});
  expect((await gateway.records.wallet()).heldNano).toBeGreaterThan(parseUsd("0.95"));
  return leaving;
}

const fileCost = (row: { inputTokens: number; outputTokens: number }) =>
  bill([
    [row.inputTokens, PRICE.input],
    [row.outputTokens, PRICE.output],
  ]);

interface Report {
  billing: { balance: string; available: string; debt: string };
}
const report = async (gateway: PaidGateway) => (await (await gateway.call("/v1/usage")).json()) as Report;

async function pay(gateway: PaidGateway, usd: string): Promise<void> {
  const { installation } = gateway;
  const user = await findUserByEmail(installation.db, PAYER);
  const order = { actor: "cli:test", reason: null, provider: "test" };
  await topUp(installation, { userId: user?.id ?? "", amountNano: parseUsd(usd), ...order });
}

describe("while another request holds the balance", () => {
  test("a file is not read at a low estimate: the request waits, then is rejected", async () => {
    const gateway = await start(
      { balance: "1.00" },
      { holdQueue: { waitMs: 300, waitingMax: 64, retryMs: 50 } },
    );
    const parked = await park(gateway);
    const beganMs = performance.now();
    const refused = await readFile(gateway);
    expect(performance.now() - beganMs).toBeGreaterThan(250);
    const { code, message } = await expectRejection(refused, 429);
    expect([refused.status, code]).toEqual([429, "insufficient_quota"]);
    expect(message).toContain("while your other requests are in flight");
    expect(gateway.simulator.ledger.modelTotals(models.reader.upstream).requests).toBe(0);
    parked.abort();
  });

  test("a file is charged in full when the other request ends in time", async () => {
    const gateway = await start({ balance: "1.00" });
    const parked = await park(gateway);
    const reading = readFile(gateway);
    await Bun.sleep(200);
    parked.abort();
    const row = await gateway.records.row(await doneId(await reading));
    expect(row.inputTokens).toBeGreaterThanOrEqual(FILE_TOKENS);
    expect(row).toMatchObject({ chargedNano: fileCost(row), costNano: fileCost(row), flags: [] });
    await eventually(() => gateway.records.holds(), { equals: 0 });
    await gateway.records.expectReconciled();
  });

  test("a request with text only is limited to the rest, as usual", async () => {
    const gateway = await start({ balance: "1.00" });
    const parked = await park(gateway);
    const response = await gateway.call("/v1/responses", { model: "reader", input: "Hello" });
    const row = await gateway.records.row(await doneId(response));
    expect(row.flags).toEqual(["capped"]);
    parked.abort();
  });
});

describe("a file that costs more than a small balance", () => {
  test("is charged in full, and paid requests are rejected until the debt is covered", async () => {
    const gateway = await start({ balance: "0.10" });
    const row = await gateway.records.row(await doneId(await readFile(gateway)));
    expect(row).toMatchObject({ chargedNano: fileCost(row), costNano: fileCost(row) });
    expect(row.flags).toContain("overrun");
    const debtNano = fileCost(row) - parseUsd("0.10");
    const { billing } = await report(gateway);
    expect(billing).toMatchObject({ debt: usdText(debtNano), available: usdText(-debtNano) });
    expect(await gateway.records.charge(row.requestId)).toMatchObject({ amountNano: row.chargedNano });
    await gateway.records.expectReconciled();

    const say = () => gateway.call("/v1/responses", { model: "reader", input: "Hello" });
    const refused = await say();
    const { code, message } = await expectRejection(refused, 429);
    expect([refused.status, code]).toEqual([429, "insufficient_quota"]);
    expect(refused.headers.get("x-should-retry")).toBe("false");
    expect(message).toContain(`$${usdText(debtNano)} in debt`);
    await pay(gateway, "0.01");
    expect((await say()).status).toBe(429);
    await pay(gateway, "0.50");
    expect((await report(gateway)).billing.debt).toBe("0.00");
    await doneId(await say());
    await gateway.records.expectReconciled();
  });

  test("uses what is available beside the holds of other requests, and the rest becomes debt", async () => {
    const gateway = await start({
      balance: "0.20",
      models: { ...models, chat: "sim-fast@events=4000,interval=20ms" },
    });
    const messages = [{ role: "user", content: "Hello" }];
    const body = { model: "chat", messages, stream: true, max_tokens: 10_000 };
    const leaving = new AbortController();
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${TEST_KEY}`, "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: leaving.signal,
    });
    response.body?.pipeTo(new WritableStream()).catch(() => {});
    const { heldNano } = await gateway.records.wallet();
    const row = await gateway.records.row(await doneId(await readFile(gateway)));
    const wallet = await gateway.records.wallet();
    expect(wallet).toEqual({ balanceNano: parseUsd("0.20") - fileCost(row), heldNano });
    // The other request still has its hold, so the missing amount is debt until that request ends.
    expect((await report(gateway)).billing.debt).toBe(usdText(heldNano - wallet.balanceNano));
    await gateway.records.expectReconciled();
    leaving.abort();
    await eventually(() => gateway.records.holds(), { equals: 0 });
    expect((await report(gateway)).billing.debt).toBe("0.00");
    await gateway.records.expectReconciled();
  });

  test("of a subscription is charged in full to its window, which is then exhausted", async () => {
    const window = { per: "day", usd: "0.10" };
    const gateway = await start({
      billing: { charge: "subscription" },
      plans: [{ name: "small", windows: [window] }],
      subscriptions: [{ plan: "small" }],
    });
    const row = await gateway.records.row(await doneId(await readFile(gateway)));
    expect(row).toMatchObject({ chargedNano: fileCost(row), payer: "subscription" });
    expect(row.flags).toContain("overrun");
    await gateway.records.expectReconciled();
    const refused = await gateway.call("/v1/responses", { model: "reader", input: "Hello" });
    expect(refused.status).toBe(429);
    expect(await gateway.records.wallet()).toEqual({ balanceNano: 0n, heldNano: 0n });
  });
});
