/** What OpenAI's SDK pays, and what it does when it cannot pay. */

import { afterEach, expect, test } from "bun:test";
import OpenAI from "openai";
import { eventually } from "../support/eventually.ts";
import { bill, type PaidGateway, type PaidSetup, PRICE, startPaidGateway } from "../support/paid-gateway.ts";
import { TEST_KEY } from "../support/running-gateway.ts";

let gateway: PaidGateway | null = null;

afterEach(async () => {
  await gateway?.records.expectReconciled();
  await gateway?.stop();
  gateway = null;
});

async function start(setup: PaidSetup): Promise<PaidGateway> {
  gateway = await startPaidGateway(setup);
  return gateway;
}

/** Counts the requests that the SDK sends. */
function openClient({ url }: PaidGateway): { client: OpenAI; calls(): number } {
  let calls = 0;
  const client = new OpenAI({
    baseURL: `${url}/v1`,
    apiKey: TEST_KEY,
    fetch(...call) {
      calls++;
      return fetch(...call);
    },
  });
  return { client, calls: () => calls };
}

const hello = { model: "paid", input: "Hello" };

test("pays the price of the tokens for whole and streamed responses", async () => {
  const { url, records, simulator } = await start({ balance: "100.00", billing: { multiplier: "1.5" } });
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: TEST_KEY, maxRetries: 0 });
  const expectCharged = async (id: string) => {
    // The simulator records the output after its last byte, which the client may receive before.
    await eventually(() => simulator.ledger.totals().inFlight, { equals: 0 });
    const { inputTokens = 0, outputTokens = 0 } = simulator.ledger.last() ?? {};
    const lines = [[inputTokens, PRICE.input] as const, [outputTokens, PRICE.output] as const];
    expect((await records.row(id)).chargedNano).toBe(bill(lines, "1.5"));
  };
  const whole = await client.responses.create(hello);
  await expectCharged(whole._request_id ?? "");
  const { data, request_id } = await client.chat.completions
    .create({ model: "paid", messages: [{ role: "user", content: "Hello" }], stream: true })
    .withResponse();
  for await (const _ of data);
  await expectCharged(request_id ?? "");
});

test("raises RateLimitError without a balance, and does not retry", async () => {
  const paid = await start({});
  const { client, calls } = openClient(paid);
  const error = await client.responses.create(hello).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(OpenAI.RateLimitError);
  expect(error).toMatchObject({ status: 429, code: "insufficient_quota" });
  expect(calls()).toBe(1);
  expect(await paid.usageRows()).toHaveLength(1);
});

test("raises RateLimitError for an exhausted window, and does not retry", async () => {
  const group = { limits: { windows: [{ per: "5h", usd: "0.000001" }] } };
  const { client, calls } = openClient(await start({ billing: { charge: "none" }, group }));
  // Nothing is used yet, so even a request above the limit is admitted; the next one is not.
  await client.responses.create(hello);
  expect(calls()).toBe(1);
  const error = await client.responses.create(hello).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(OpenAI.RateLimitError);
  expect(error).toMatchObject({ status: 429, type: "usage_limit_reached" });
  expect(calls()).toBe(2);
});

test("gets the first response again under the same idempotency key", async () => {
  const paid = await start({ balance: "1.00" });
  const { client } = openClient(paid);
  const create = () => client.responses.create(hello, { headers: { "Idempotency-Key": "mine" } });
  expect(await create()).toEqual(await create());
  expect(paid.simulator.ledger.totals().requests).toBe(1);
});
