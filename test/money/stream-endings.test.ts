/** Every outcome of a request has one usage row and is charged exactly its use. */

import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { startSimulator } from "../../simulator/simulator.ts";
import { findUsage } from "../../src/store/usage/usage.ts";
import { eventStream, responsesEvent, startGatewayWithResponses } from "../support/canned-upstream.ts";
import { eventually } from "../support/eventually.ts";
import { bill, type PaidGateway, PRICE, SIMULATOR, startPaidGateway } from "../support/paid-gateway.ts";

setDefaultTimeout(60_000);

const MODELS = {
  plain: "sim-fast",
  incomplete: "fault/incomplete",
  failed: "fault/failed",
  cut: "fault/cut@chunk30,events=60",
  reset: "fault/rst@chunk30,events=60",
  silent: "fault/no-usage",
  zero: "fault/usage-zero",
  negative: "fault/usage-negative",
  nan: "fault/usage-nan",
  huge: "fault/usage-huge",
  absurd: "fault/usage-absurd",
  refusing: "fault/400",
  dead: "fault/refuse",
  limited: "fault/429",
  slow: "sim-fast@events=1000,interval=10ms",
};

const FAMILIES = ["/v1/chat/completions", "/v1/responses"] as const;
type Family = (typeof FAMILIES)[number];
const PROMPT = "What is a ledger, and who keeps it? Say it in a few words, please.";
const prompts = {
  "/v1/chat/completions": { messages: [{ role: "user", content: PROMPT }] },
  "/v1/responses": { input: PROMPT },
} as const;

let gateway: PaidGateway;

beforeAll(async () => {
  gateway = await startPaidGateway({
    balance: "100.00",
    models: MODELS,
    group: { on_disconnect: "cancel" },
  });
});
afterAll(() => gateway.stop());
afterEach(async () => {
  await eventually(() => gateway.records.holds(), { equals: 0 });
  expect((await gateway.records.wallet()).heldNano).toBe(0n);
  await gateway.records.expectReconciled();
});

async function ask(path: Family, model: string, more: object = {}) {
  const response = await gateway.call(path, { model, ...prompts[path], ...more });
  await response.text();
  const row = await gateway.records.row(response.headers.get("x-request-id") ?? "");
  return { status: response.status, row, charge: await gateway.records.charge(row.requestId) };
}

const computeCost = ({ inputTokens, outputTokens }: { inputTokens: number; outputTokens: number }) =>
  bill([
    [inputTokens, PRICE.input],
    [outputTokens, PRICE.output],
  ]);

const truth = () => {
  // A request without a model retrieves a response whose stream ended early.
  const last = gateway.simulator.ledger.entries().findLast(({ model }) => model !== "");
  if (last === undefined) throw new Error("nothing went upstream");
  return last;
};

describe.each([...FAMILIES])("%s", (path) => {
  test.each([
    ["incomplete", false],
    ["incomplete", true],
    ["failed", true],
  ] as const)("%s (stream: %p) is charged as the upstream counted it", async (model, stream) => {
    const { row, charge } = await ask(path, model, { stream });
    const outcome = model === "incomplete" && path === "/v1/chat/completions" ? "completed" : model;
    expect(row).toMatchObject({ outcome, usageSource: "upstream", flags: [], payer: "balance" });
    expect(row.chargedNano).toBe(computeCost(truth()));
    expect(charge?.amountNano).toBe(row.chargedNano);
  });

  test.each(["cut", "reset"])(
    "a stream that its upstream %s is charged for the delivered content",
    async (model) => {
      const { row, charge } = await ask(path, model, { stream: true });
      expect(row).toMatchObject({ outcome: "upstream_cut", usageSource: "partial", flags: ["partial"] });
      const { inputTokens, outputTokens } = truth();
      expect(row.inputTokens).toBe(inputTokens);
      expect(row.outputTokens).toBeGreaterThan(0);
      expect(Math.abs(row.outputTokens - outputTokens)).toBeLessThanOrEqual(Math.ceil(outputTokens / 50));
      expect(row.chargedNano).toBe(computeCost(row));
      expect(charge?.amountNano).toBe(row.chargedNano);
    },
  );

  test.each([
    ["refusing", 400],
    ["limited", 429],
    ["dead", 502],
  ])("a request that no account served (%s) is not charged", async (model, status) => {
    for (const stream of [false, true]) {
      const asked = await ask(path, model, { stream });
      expect(asked.status).toBe(status);
      expect(asked.row).toMatchObject({ outcome: "failed", costNano: 0n, chargedNano: 0n });
      expect(asked.charge).toBeNull();
    }
  });

  test.each([
    ["silent", false],
    ["silent", true],
    ["zero", false],
    ["zero", true],
  ] as const)("usage that is missing or zero is counted locally (%s, stream: %p)", async (model, stream) => {
    const { row, charge } = await ask(path, model, { stream });
    expect(row).toMatchObject({ outcome: "completed", usageSource: "estimated", flags: ["estimated"] });
    expect(row.inputTokens).toBe(truth().inputTokens);
    expect(row.outputTokens).toBe(truth().outputTokens);
    expect(row.chargedNano).toBe(computeCost(row));
    expect(charge?.amountNano).toBe(row.chargedNano);
  });

  test.each([
    ["negative", false],
    ["negative", true],
    ["nan", false],
    ["nan", true],
    ["huge", false],
    ["huge", true],
    ["absurd", false],
    ["absurd", true],
  ] as const)("usage that is impossible (%s, stream: %p) is charged the hold", async (model, stream) => {
    const bound = path === "/v1/responses" ? { max_output_tokens: 50 } : { max_completion_tokens: 50 };
    const { row, charge } = await ask(path, model, { stream, ...bound });
    expect(row).toMatchObject({ inputTokens: 0, outputTokens: 0, flags: ["clamped"] });
    // Fifty tokens, and an upper estimate of the input.
    expect(row.chargedNano).toBeGreaterThanOrEqual(bill([[50, PRICE.output]]));
    expect(row.chargedNano).toBeLessThan(
      bill([
        [50, PRICE.output],
        [200, PRICE.input],
      ]),
    );
    expect(charge?.amountNano).toBe(row.chargedNano);
    expect(
      gateway.log.some((line) => line.includes("impossible_usage") && line.includes(row.requestId)),
    ).toBe(true);
  });
});

test("a whole response that failed is charged its reported usage", async () => {
  const { row } = await ask("/v1/responses", "failed");
  expect(row).toMatchObject({ outcome: "failed", chargedNano: computeCost(truth()) });
});

test("a background response keeps its hold until it has ended, and then its usage is charged", async () => {
  const response = await gateway.call("/v1/responses", { model: "plain", input: "Hello", background: true });
  expect(response.status).toBe(200);
  const id = response.headers.get("x-request-id") ?? "";
  const row = await eventually(() => findUsage(gateway.installation.db, id));
  expect(row).toMatchObject({ outcome: "completed", usageSource: "upstream" });
  expect(row?.outputTokens).toBeGreaterThan(0);
  expect(row?.chargedNano).toBe(row === null ? 0n : computeCost(row));
});

test("a stream that is cancelled by its id is charged for the delivered content", async () => {
  const response = await gateway.call("/v1/responses", { model: "slow", input: "Hello", stream: true });
  const reader = response.body?.getReader();
  const seen = new TextDecoder().decode((await reader?.read())?.value);
  const id = /"id":"(resp_[^"]+)"/.exec(seen)?.[1];
  const cancelled = await gateway.call(`/v1/responses/${id}/cancel`, undefined, { method: "POST" });
  await cancelled.text();
  await reader?.cancel();
  const row = await gateway.records.row(response.headers.get("x-request-id") ?? "");
  expect(row.chargedNano).toBeGreaterThan(0n);
  expect(row.chargedNano).toBe(computeCost(row));
});

describe("a request that a second account served", () => {
  test.each([
    ["500", false, false],
    ["rst@byte0", false, true],
    ["rst", true, true],
    ["badjson", false, true],
    ["capacity-in-stream", true, false],
  ] as const)(
    "after %s (stream: %p) costs the user one response and the operator both",
    async (fault, stream, wasted) => {
      const first = startSimulator({ tokens: "o200k" });
      const account = { kind: "openai", credential: "credential", private_network: true };
      const pooled = await startPaidGateway({
        balance: "1.00",
        billing: { multiplier: "2" },
        accounts: [
          { ...account, name: "first", priority: 1, base_url: first.url, models: { paid: "sim-fast" } },
          { ...account, name: "second", priority: 2, base_url: SIMULATOR, models: { paid: "sim-fast" } },
        ],
      });
      try {
        first.force(fault);
        const body = { model: "paid", input: PROMPT, stream };
        const response = await pooled.call("/v1/responses", body);
        expect(response.status).toBe(200);
        await response.text();
        const row = await pooled.records.row(response.headers.get("x-request-id") ?? "");
        const last = pooled.simulator.ledger.last();
        if (last === null) throw new Error("the second account was not asked");
        expect(row).toMatchObject({ attempts: 2, outcome: "completed" });
        expect(row.chargedNano).toBe(
          bill(
            [
              [last.inputTokens, PRICE.input],
              [last.outputTokens, PRICE.output],
            ],
            "2",
          ),
        );
        const listNano = computeCost(last);
        if (!wasted) expect(row.upstreamNano).toBe(listNano);
        else {
          // At least the estimated input.
          expect(row.upstreamNano).toBeGreaterThanOrEqual(listNano + bill([[last.inputTokens, PRICE.input]]));
          expect(row.upstreamNano).toBeLessThan(listNano + bill([[200, PRICE.input]]));
        }
        await pooled.records.expectReconciled();
      } finally {
        await pooled.stop();
        await first.stop();
      }
    },
  );
});

test("usage that an account reported before it failed is the operator's cost, not the user's", async () => {
  const usage = { input_tokens: 500, output_tokens: 70, total_tokens: 570 };
  const response = { id: "resp_1", object: "response", status: "in_progress", model: "up", output: [] };
  const error = { code: "server_error", message: "broke" };
  const failing = await startGatewayWithResponses(() =>
    eventStream([
      responsesEvent("response.created", { response }),
      responsesEvent("response.failed", { response: { ...response, status: "failed", error, usage } }),
    ]),
  );
  const body = { model: "paid", input: PROMPT, stream: true };
  const responded = await failing.call("/v1/responses", body);
  await responded.text();
  const row = await failing.records.row(responded.headers.get("x-request-id") ?? "");
  expect(row).toMatchObject({ outcome: "failed", chargedNano: 0n, costNano: 0n });
  expect(row.upstreamNano).toBe(computeCost({ inputTokens: 500, outputTokens: 70 }));
  await failing.stop();
});

test("a 200 without a response in it is an unpaid failure, and its message is not delivered", async () => {
  const failing = await startGatewayWithResponses(() =>
    Response.json({ object: "error", message: "org-canary has no machines left", code: 500 }),
  );
  for (const [path, body] of [
    ["/v1/chat/completions", { model: "paid", messages: [{ role: "user", content: PROMPT }] }],
    ["/v1/responses", { model: "paid", input: PROMPT }],
  ] as const) {
    const responded = await failing.call(path, body);
    expect(responded.status).toBe(502);
    expect(await responded.text()).not.toContain("org-canary");
    const row = await failing.records.row(responded.headers.get("x-request-id") ?? "");
    expect(row).toMatchObject({ outcome: "failed", chargedNano: 0n });
  }
  await failing.stop();
});
