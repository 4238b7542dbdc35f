/** Paid background responses that another process left, with upstreams and accounts that do not help. */

import { afterEach, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { releaseSetAside } from "../../src/billing/operations/resolve-hold.ts";
import { openDb } from "../../src/store/engine/db.ts";
import { eventually } from "../support/eventually.ts";
import { bill, type PaidGateway, PRICE, startPaidGateway } from "../support/paid-gateway.ts";
import type { GatewayOptions } from "../support/running-gateway.ts";

setDefaultTimeout(30_000);

const USED = { input_tokens: 10, output_tokens: 900, total_tokens: 910 };
const USED_NANO = bill([
  [USED.input_tokens, PRICE.input],
  [USED.output_tokens, PRICE.output],
]);
/** USD for each search. */
const SEARCH_PRICE = { ...PRICE, per_call: { web_search: "0.01" } };
/** Of all keys of the group. */
const WINDOW = { per: "1d", requests: 1_000, tokens: 1_000_000 };
const TEXT = "The quick brown fox jumps over the lazy dog.";

let folder: string;
let upstream: Bun.Server<undefined>;
let response: Record<string, unknown>;
let respond: () => Response;
let cancel: () => Response;
let gateway: PaidGateway | null = null;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "model-gateway-held-"));
  response = buildResponse("in_progress");
  respond = () => Response.json(response);
  cancel = () => new Response("no", { status: 500 });
  upstream = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: ({ url }) => (url.endsWith("/cancel") ? cancel() : respond()),
  });
});

afterEach(async () => {
  await gateway?.records.expectReconciled();
  await gateway?.stop();
  gateway = null;
  await upstream.stop(true);
  rmSync(folder, { recursive: true, force: true });
});

const buildResponse = (status: string, usage: object | null = null): Record<string, unknown> => ({
  id: "resp_held",
  object: "response",
  status,
  model: "up",
  background: true,
  output: status === "completed" ? [{ type: "message", content: [{ type: "output_text", text: TEXT }] }] : [],
  usage,
});

/** The next process on the same database. */
async function start(limits: GatewayOptions["limits"] = {}, account: object = {}): Promise<PaidGateway> {
  await gateway?.stop();
  const own = {
    name: "own",
    kind: "openai",
    base_url: `http://127.0.0.1:${upstream.port}/v1`,
    credential: "credential",
    private_network: true,
    models: { paid: "up" },
    ...account,
  };
  gateway = await startPaidGateway(
    {
      balance: "10.00",
      group: { group_limits: { windows: [WINDOW] } },
      models: { paid: { upstream: "up", price: SEARCH_PRICE } },
      accounts: [own],
    },
    {
      databaseUrl: `sqlite:${join(folder, "gateway.db")}`,
      environment: { MODEL_GATEWAY_MASTER_KEY: Buffer.alloc(32, 7).toString("base64") },
      limits,
    },
  );
  return gateway;
}

/** Begins a response, stops the gateway while it is in progress, and returns its request and its hold. */
async function begin(more: object = {}): Promise<{ requestId: string; heldNano: bigint }> {
  const first = await start();
  const body = { model: "paid", input: "Hello", background: true, ...more };
  const begun = await first.call("/v1/responses", body);
  await begun.text();
  const { heldNano } = await first.records.wallet();
  await first.stop();
  gateway = null;
  return { requestId: begun.headers.get("x-request-id") ?? "", heldNano };
}

const look = async (running: PaidGateway) => {
  const seen = await running.call("/v1/responses/resp_held");
  const json = (await seen.json()) as { status?: string; error?: { code: string } };
  return json.error?.code ?? json.status;
};

test("a response that takes too long is cancelled, and the upstream's usage is charged", async () => {
  const { requestId } = await begin();
  cancel = () => {
    response = buildResponse("cancelled", USED);
    return Response.json(response);
  };
  const { records } = await start({ backgroundMsMax: 1 });
  expect(await records.row(requestId)).toMatchObject({
    outcome: "cancelled",
    usageSource: "upstream",
    chargedNano: USED_NANO,
    flags: [],
  });
});

test("a response of the process before counts in windows when it is settled", async () => {
  const { requestId } = await begin();
  const next = await start();
  const readUsed = async () => {
    const usage = await next.call("/v1/usage");
    const { limits } = (await usage.json()) as { limits: { group: { windows: Record<string, unknown>[] } } };
    return limits.group.windows;
  };
  expect(await readUsed()).toMatchObject([{ requests: { used: 0 }, tokens: { used: 0 } }]);
  response = buildResponse("completed", USED);
  await next.records.row(requestId);
  await eventually(async () => JSON.stringify(await readUsed()).includes('"used":910'));
  expect(await readUsed()).toMatchObject([{ requests: { used: 1 }, tokens: { used: 910 } }]);
});

test("a response that takes too long and does not stop is charged its hold, and is not served", async () => {
  const { requestId, heldNano } = await begin();
  const next = await start({ backgroundMsMax: 1 });
  const row = await next.records.row(requestId);
  expect(row).toMatchObject({ outcome: "upstream_cut", responseId: null, flags: ["clamped", "recovered"] });
  expect(row.chargedNano).toBe(heldNano);
  response = buildResponse("completed", USED);
  expect(await look(next)).toBe("response_not_found");
  expect((await next.records.wallet()).heldNano).toBe(0n);
});

test("while its account is disabled a response is not served, and it is charged when the account is back", async () => {
  const { requestId } = await begin();
  response = buildResponse("completed", USED);
  const disabled = await start({}, { enabled: false });
  expect(await look(disabled)).toBe("no_available_account");
  await Bun.sleep(1_500);
  expect(await disabled.records.findRow(requestId)).toBeNull();
  const enabled = await start();
  expect(await look(enabled)).toBe("completed");
  expect(await enabled.records.row(requestId)).toMatchObject({ chargedNano: USED_NANO, flags: [] });
});

test("a response without an account is charged its hold when its time is over", async () => {
  const { requestId, heldNano } = await begin();
  response = buildResponse("completed", USED);
  const next = await start({ backgroundMsMax: 1 }, { enabled: false });
  expect((await next.records.row(requestId)).chargedNano).toBe(heldNano);
  expect(await look(await start())).toBe("response_not_found");
});

test("a response whose upstream reports no usage is counted", async () => {
  const { requestId } = await begin();
  response = buildResponse("completed");
  const { records } = await start();
  const row = await records.row(requestId);
  expect(row).toMatchObject({ outcome: "completed", usageSource: "estimated", flags: ["estimated"] });
  expect(row.outputTokens).toBe(10);
  expect(row.chargedNano).toBe(
    bill([
      [row.inputTokens, PRICE.input],
      [10, PRICE.output],
    ]),
  );
});

test("a response whose usage is implausible is charged its hold", async () => {
  const { requestId, heldNano } = await begin();
  response = buildResponse("completed", { ...USED, output_tokens: 900_000_000 });
  const { records } = await start();
  expect(await records.row(requestId)).toMatchObject({ chargedNano: heldNano, flags: ["clamped"] });
});

test("a cancelled response without usage is charged the reasoning that its request allowed", async () => {
  const { requestId } = await begin();
  response = { ...buildResponse("cancelled"), reasoning: { effort: "low" } };
  const { records } = await start();
  expect(await records.row(requestId)).toMatchObject({
    outcome: "cancelled",
    reasoningTokens: 512,
    flags: ["estimated", "partial"],
  });
});

const UNSETTLEABLE = [
  ["cannot be read", "UPDATE hold SET interface = 'of a later version'"],
  ["cannot be priced", "UPDATE hold SET tariff_id = 'odd'"],
] as const;

test.each(UNSETTLEABLE)("a hold that %s is set aside, and the others are settled", async (_, spoil) => {
  const odd = await begin();
  const db = await openDb(`sqlite:${join(folder, "gateway.db")}`);
  await db.sql.script("INSERT INTO tariff (id, terms) VALUES ('odd', 'no tariff')");
  await db.sql.script(spoil);
  await db.close();
  const good = await begin();
  const { records, installation } = await start();
  response = buildResponse("completed", USED);
  expect(await records.row(good.requestId)).toMatchObject({ chargedNano: USED_NANO });
  const listIds = async () => (await records.setAside()).map(({ requestId }) => requestId);
  await eventually(async () => (await listIds()).length > 0);
  expect(await listIds()).toEqual([odd.requestId]);
  expect(await records.findRow(odd.requestId)).toBeNull();
  await releaseSetAside(installation.db, odd.requestId);
});

test("an upstream that fails for a while is polled again", async () => {
  const { requestId } = await begin();
  let polls = 0;
  respond = () => {
    polls++;
    return new Response("no", { status: 500 });
  };
  const { records } = await start();
  await eventually(() => polls >= 2);
  expect(await records.findRow(requestId)).toBeNull();
  respond = () => Response.json(buildResponse("completed", USED));
  expect(await records.row(requestId)).toMatchObject({ chargedNano: USED_NANO });
});

test.each([
  ["the limit that the response repeats", 3, 3],
  ["the bound of its group, if the response repeats none", null, 10],
])("searches are charged up to %s", async (_, limit, charged) => {
  const { requestId } = await begin({ tools: [{ type: "web_search" }] });
  const search = { type: "web_search_call", status: "completed", action: { type: "search", query: "news" } };
  response = {
    ...buildResponse("completed", USED),
    output: Array.from({ length: 12 }, (__, at) => ({ ...search, id: `ws_${at}` })),
    max_tool_calls: limit,
  };
  const { records } = await start();
  expect(await records.row(requestId)).toMatchObject({
    outcome: "completed",
    webSearches: charged,
    chargedNano: USED_NANO + BigInt(charged) * 10_000_000n,
  });
});
