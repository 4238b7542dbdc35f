/** What requests to Amazon Bedrock and Google Vertex AI cost: the invoice of a fixed series of requests. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { eventually } from "../support/eventually.ts";
import type { RunningGateway } from "../support/running-gateway.ts";
import { ask, startCloudGateway } from "./cloud-gateway.ts";

setDefaultTimeout(60_000);

const PRICE = { input: "3", cached_input: "0.30", cache_write: "3.75", output: "15" };

let gateway: RunningGateway;

beforeAll(async () => {
  gateway = await startCloudGateway({
    model: { price: PRICE },
    group: { billing: { charge: "balance" } },
    user: { balance: "10.00" },
  });
});
afterAll(() => gateway.stop());

/** Charged nano-USD of the requests since the last call. */
async function takeCharges(count: number): Promise<bigint[]> {
  const rows = await eventually(async () => {
    const all = await gateway.usageRows();
    return all.length >= seen + count ? all.slice(seen) : null;
  });
  seen += rows.length;
  return rows.map(({ charged_nano: charged }) => BigInt(String(charged)));
}
let seen = 0;

// 11 input tokens at $3 and 60 output tokens at $15, per million.
const ONE = 933_000n;

test("a Messages client pays the same on every account, whole and streamed", async () => {
  for (const model of ["bedrock-fast", "bedrock-arn", "vertex-claude"]) {
    for (const stream of [false, true]) await (await ask(gateway, "messages", model, { stream })).text();
  }
  expect(await takeCharges(6)).toEqual(Array(6).fill(ONE));
});

test("a Gemini client pays the same on a Gemini model of Vertex AI", async () => {
  for (const stream of [false, true])
    await (await ask(gateway, "gemini", "vertex-gemini", { stream })).text();
  expect(await takeCharges(2)).toEqual([ONE, ONE]);
});

test("a translated request is charged by the upstream's usage", async () => {
  for (const dialect of ["chat", "responses", "gemini"]) {
    const { ledger } = gateway.simulator;
    await (await ask(gateway, dialect, "bedrock-fast", { stream: true })).text();
    const { outputTokens } = ledger.last() ?? { outputTokens: 0 };
    const [charged = 0n] = await takeCharges(1);
    // Output at $15, and at least the question at the price of a cache read.
    expect(charged).toBeGreaterThan(BigInt(outputTokens) * 15_000n);
    expect(charged).toBeLessThan(BigInt(outputTokens) * 15_000n + 100_000n);
  }
});

test("a failure before content costs nothing, and an exception in a stream costs what was sent", async () => {
  gateway.simulator.force("error-in-stream@chunk1", 1);
  expect((await ask(gateway, "messages", "bedrock-fast", { stream: true })).status).toBe(500);
  gateway.simulator.force("error-in-stream@chunk4", 1);
  await (await ask(gateway, "messages", "bedrock-tools", { stream: true })).text();
  const [failed, broken = 0n] = await takeCharges(2);
  expect(failed).toBe(0n);
  expect(broken).toBeGreaterThan(0n);
  expect(broken).toBeLessThan(ONE);
});

test("a client that disconnects pays for the whole response", async () => {
  const controller = new AbortController();
  const { signal } = controller;
  const response = await ask(gateway, "messages", "bedrock-slow", { stream: true, signal });
  await response.body?.getReader().read();
  controller.abort();
  await eventually(() => gateway.simulator.ledger.last()?.finished, { equals: true });
  const { outputTokens } = gateway.simulator.ledger.last() ?? { outputTokens: 0 };
  expect(await takeCharges(1)).toEqual([11n * 3_000n + BigInt(outputTokens) * 15_000n]);
});

test("the balance is what was not charged", async () => {
  const rows = await gateway.usageRows();
  const charged = rows.reduce((sum, row) => sum + BigInt(String(row.charged_nano)), 0n);
  await eventually(async () => {
    const [wallet] = await gateway.installation.db.sql`SELECT balance_nano, held_nano FROM wallet`;
    return (
      BigInt(String(wallet?.balance_nano)) === 10_000_000_000n - charged &&
      BigInt(String(wallet?.held_nano)) === 0n
    );
  });
});
