/** Embeddings that are sent in batches: what is charged if one of them fails, or if the client disconnects. */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { loadTokenizer } from "../../src/gateway/metering/tokenizer.ts";
import { eventually } from "../support/eventually.ts";
import { PAYER, type PaidGateway, startPaidGateway } from "../support/paid-gateway.ts";
import { TEST_KEY } from "../support/running-gateway.ts";

const UNPAID_KEY = "unpaid-key-0123456789-0123456789-0123456789";
const MODEL = { upstream: "up", price: { input: "2.50" }, more: { interfaces: ["embeddings"] } };
/** Twenty batches: Google accepts a hundred texts at once. One token each. */
const TEXTS = Array.from({ length: 1_999 }, () => "hello");
const FAILING = [...TEXTS, "fail"];

/** The tokens that the upstream reports for each batch; null for no report. */
let reportedTokens: number | null = null;
/** From this batch on the upstream does not respond. */
let silentFrom = Number.POSITIVE_INFINITY;
let batches = 0;
let gateway: PaidGateway;
let upstream: ReturnType<typeof Bun.serve>;

beforeAll(async () => {
  upstream = Bun.serve({ hostname: "127.0.0.1", port: 0, idleTimeout: 0, fetch: respond });
  gateway = await startPaidGateway({
    balance: "10",
    models: { embed: MODEL },
    accounts: [
      {
        name: "google",
        kind: "gemini",
        base_url: `http://127.0.0.1:${upstream.port}`,
        credential: "credential",
        private_network: true,
        models: { embed: "up" },
      },
    ],
    group: { interfaces: ["embeddings"], on_disconnect: "cancel", limits: { rpm: 100, tpm: 1_000_000 } },
    groups: [{ name: "unpaid", models: ["embed"], accounts: ["google"] }],
    keys: [{ name: "unpaid", user: PAYER, group: "unpaid", secret: UNPAID_KEY }],
  });
  await loadTokenizer();
});
afterAll(async () => {
  await gateway.records.expectReconciled();
  await gateway.stop();
  await upstream.stop(true);
});
beforeEach(() => {
  reportedTokens = null;
  silentFrom = Number.POSITIVE_INFINITY;
  batches = 0;
});

async function respond(request: Request): Promise<Response> {
  const text = await request.text();
  if (batches++ >= silentFrom) await new Promise(() => {});
  if (text.includes('"fail"'))
    return Response.json({ error: { code: 400, status: "INVALID_ARGUMENT" } }, { status: 400 });
  const { requests } = JSON.parse(text);
  const embeddings = requests.map(() => ({ values: [0.6, 0.8] }));
  const usage = reportedTokens === null ? {} : { usageMetadata: { promptTokenCount: reportedTokens } };
  return Response.json({ embeddings, ...usage });
}

async function send(input: readonly string[], { key = TEST_KEY, headers = {} } = {}) {
  const body = { model: "embed", input };
  const init = { headers: { authorization: `Bearer ${key}`, ...headers } };
  const response = await gateway.call("/v1/embeddings", body, init);
  await response.text();
  await gateway.usageRows();
  return { response, row: await gateway.records.row(response.headers.get("x-request-id") ?? "") };
}

describe("a failing last batch", () => {
  test("leaves the client with its error, and charges the finished batches as reported", async () => {
    reportedTokens = 300;
    const { response, row } = await send(FAILING);
    expect(response.status).toBe(400);
    // 19 batches of 300 tokens at $2.50 a million
    expect(row).toMatchObject({ outcome: "failed", inputTokens: 5_700, chargedNano: 14_250_000n, flags: [] });
    expect(await gateway.records.holds()).toBe(0);
  });

  test("charges the finished batches as counted if the upstream reports nothing", async () => {
    const { response, row } = await send(FAILING);
    expect(response.status).toBe(400);
    // 1,900 texts of one token at $2.50 a million
    expect(row).toMatchObject({ inputTokens: 1_900, chargedNano: 4_750_000n, flags: ["partial"] });
  });

  test("counts against the limits of its caller", async () => {
    const before = (await send(["hello"])).response.headers;
    reportedTokens = 300;
    await send(FAILING);
    reportedTokens = null;
    const after = (await send(["hello"])).response.headers;
    const used = (unit: string) =>
      Number(before.get(`x-ratelimit-remaining-${unit}`)) -
      Number(after.get(`x-ratelimit-remaining-${unit}`));
    expect(used("requests")).toBe(2);
    // The failed request, and the one that shows it.
    expect(used("tokens")).toBeGreaterThanOrEqual(5_700);
    expect(used("tokens")).toBeLessThan(5_900);
  });

  test("is recorded for an unpaid request with its cost", async () => {
    const { row } = await send(FAILING, { key: UNPAID_KEY });
    expect(row).toMatchObject({ inputTokens: 1_900, costNano: 4_750_000n, chargedNano: 0n });
  });

  test("uses up the Idempotency-Key, because accounts have worked", async () => {
    const headers = { "idempotency-key": "batches-1" };
    const first = await send(FAILING, { headers });
    expect(first.response.status).toBe(400);
    const sent = batches;
    const repeat = await gateway.call("/v1/embeddings", { model: "embed", input: FAILING }, { headers });
    expect([repeat.status, batches]).toEqual([409, sent]);
    await repeat.text();
  });
});

test("batches that were finished or in flight when the client disconnected are charged", async () => {
  silentFrom = 4;
  const leaving = new AbortController();
  const rowsBefore = (await gateway.usageRows()).length;
  const sending = gateway
    .call("/v1/embeddings", { model: "embed", input: TEXTS }, { signal: leaving.signal })
    .catch(() => null);
  await eventually(() => batches, { equals: 8 });
  leaving.abort();
  await sending;
  const row = await eventually(async () => {
    const rows = await gateway.usageRows();
    return rows.length > rowsBefore ? gateway.records.row(String(rows.at(-1)?.request_id)) : null;
  });
  // Four finished and four in flight: 800 texts of one token at $2.50 a million
  expect(row).toMatchObject({ outcome: "client_gone", inputTokens: 800, chargedNano: 2_000_000n });
});
