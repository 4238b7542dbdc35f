/** A step serves what the steps before it cannot, at its own price, and the answer says so. */

import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { NO_FALLBACK } from "../../src/store/usage/usage-row.ts";
import { expectRejection } from "../support/error-envelope.ts";
import { type PaidGateway, PRICE } from "../support/paid-gateway.ts";
import { asRecord } from "../support/sse-text.ts";
import { stopAfterEach } from "../support/stop-after-each.ts";
import {
  ask,
  billRow,
  expectNothingHeld,
  type FallbackSetup,
  OTHER_PRICE,
  readServed,
  requestsFor,
  startFallbackGateway,
} from "./fallback-gateway.ts";

setDefaultTimeout(60_000);

const stopLater = stopAfterEach(expectNothingHeld);

function start(setup: FallbackSetup = {}, options: object = {}): Promise<PaidGateway> {
  return stopLater(startFallbackGateway(setup, options));
}

const stepHeaders = ({ headers }: Response) => [
  headers.get("x-gateway-group"),
  headers.get("x-gateway-step"),
  headers.get("x-gateway-fallback-reason"),
];

async function expectCode(response: Response, status: number, code: string): Promise<void> {
  expect((await expectRejection(response, status)).code).toBe(code);
}

const ALL = Object.keys(requestsFor("asked"));

describe("a failing group", () => {
  test.each(ALL)("is left by %s, which costs the price of the step", async (name) => {
    const gateway = await start();
    const { path, body } = requestsFor("asked")[name] ?? { path: "", body: {} };
    const response = await gateway.call(path, body);
    const { row, group } = await readServed(gateway, response);
    expect(stepHeaders(response)).toEqual(["standard", "1", "failing"]);
    expect([group, row.publicModel, row.fallbackStep, row.fallbackReason, row.requestedModel]).toEqual([
      "standard",
      "asked",
      1,
      "failing",
      "asked",
    ]);
    expect(row.chargedNano).toBe(billRow(row, PRICE, "2"));
    expect(row.payer).toBe("balance");
    const { balanceNano } = await gateway.records.wallet();
    expect(balanceNano).toBe(5_000_000_000n - row.chargedNano);
  });

  test("keeps a request that its first step serves", async () => {
    const gateway = await start({ first: "sim-fast" });
    const response = await ask(gateway);
    const { row, group } = await readServed(gateway, response);
    expect(stepHeaders(response)).toEqual(["saver", "0", null]);
    expect(group).toBe("saver");
    expect(row).toMatchObject(NO_FALLBACK);
    expect(row.chargedNano).toBe(billRow(row, PRICE, "0.5"));
  });

  test("goes to another model, whose name the answer and the row have", async () => {
    const gateway = await start({ steps: [], modelSteps: [{ model: "other", when: ["failing"] }] });
    for (const stream of [false, true]) {
      const response = await ask(gateway, { stream });
      const { row, group, text } = await readServed(gateway, response);
      expect([group, row.publicModel, row.requestedModel]).toEqual(["saver", "other", "asked"]);
      expect(text).toContain('"model":"other"');
      expect(text).not.toContain('"model":"asked"');
      expect(row.chargedNano).toBe(billRow(row, OTHER_PRICE, "0.5"));
    }
  });

  test("follows the steps of the group, then those of the model, and counts three attempts at most", async () => {
    const gateway = await start({
      steps: [{ group: "standard", when: ["busy"] }],
      modelSteps: [{ model: "other", when: ["failing"] }],
    });
    const response = await ask(gateway);
    const { row } = await readServed(gateway, response);
    expect(stepHeaders(response)).toEqual(["saver", "2", "failing"]);
    expect(row.attempts).toBe(2);
  });

  test("records its steps for the page of the request", async () => {
    const gateway = await start({
      steps: [
        { group: "standard", when: ["failing"], max_price: "1.5" },
        { group: "standard", when: ["failing"] },
      ],
    });
    const { row } = await readServed(gateway, await ask(gateway));
    const steps = asRecord(JSON.parse(row.trace ?? "{}")).steps;
    expect(steps).toMatchObject([
      { number: 0, group: "saver", model: "asked", result: "failed", reason: "failing" },
      { number: 1, group: "standard", model: "asked", result: "skipped", reason: "price" },
      { number: 2, group: "standard", model: "asked", result: "served", reason: "failing" },
    ]);
    expect(Object.values(asRecord((steps as unknown[])[2])).join(" ")).toMatch(/ 0\.00\d+$/);
  });
});

describe("other conditions", () => {
  test("busy: no account is free within leave_after", async () => {
    const gateway = await start({
      first: "sim-fast@events=300,interval=10ms",
      firstAccount: { limits: { concurrency: 1 } },
      saver: { queue: { timeout: "30s", max_waiting: 10 } },
      steps: [{ group: "standard", when: ["busy"], leave_after: "300ms" }],
    });
    const long = await ask(gateway, { stream: true, max_completion_tokens: 400 });
    const startedMs = performance.now();
    const response = await ask(gateway);
    expect(performance.now() - startedMs).toBeWithin(250, 2_500);
    expect(stepHeaders(response)).toEqual(["standard", "1", "busy"]);
    await readServed(gateway, response);
    await readServed(gateway, long);
  });

  test("busy: a limit of the group rejects the request", async () => {
    const gateway = await start({ first: "sim-fast", saver: { group_limits: { rpm: 1 } } });
    await readServed(gateway, await ask(gateway));
    const response = await ask(gateway);
    expect(stepHeaders(response)).toEqual(["standard", "1", "busy"]);
    const { row } = await readServed(gateway, response);
    expect(row.chargedNano).toBe(billRow(row, PRICE, "2"));
  });

  test("busy: a long body is read although a limit of the group rejects the request", async () => {
    const gateway = await start({ first: "sim-fast", saver: { group_limits: { rpm: 1 } } });
    await readServed(gateway, await ask(gateway));
    const long = [{ role: "user", content: "x ".repeat(60_000) }];
    const response = await ask(gateway, { messages: long });
    expect(stepHeaders(response)).toEqual(["standard", "1", "busy"]);
    await readServed(gateway, response);
  });

  test("window_used: a window of the group, or of the key in it, is used up", async () => {
    const gateway = await start({
      first: "sim-fast",
      saver: { limits: { windows: [{ per: "5h", requests: 1 }] } },
      steps: [{ group: "standard", when: ["window_used"] }],
    });
    await readServed(gateway, await ask(gateway));
    const response = await ask(gateway, { stream: true });
    expect(stepHeaders(response)).toEqual(["standard", "1", "window_used"]);
    await readServed(gateway, response);
  });

  test("subscription_used: the step charges the balance instead", async () => {
    const gateway = await start({
      first: "sim-fast",
      plans: [{ name: "small", windows: [{ per: "day", usd: "0.0000001" }] }],
      user: { subscriptions: [{ plan: "small" }] },
      saver: { billing: { charge: "subscription", multiplier: "0.5" } },
      steps: [{ group: "standard", when: ["subscription_used"], pay: "balance" }],
    });
    const response = await ask(gateway);
    expect(stepHeaders(response)).toEqual(["standard", "1", "subscription_used"]);
    const { row } = await readServed(gateway, response);
    expect([row.payer, row.chargedNano]).toEqual(["balance", billRow(row, PRICE, "2")]);
  });

  test("too_long: the window of the target is large enough", async () => {
    const gateway = await start({
      first: "fault/context",
      steps: [],
      modelSteps: [{ model: "other", when: ["too_long"] }],
    });
    for (const [path, stream] of [
      ["/v1/responses", true],
      ["/v1/responses", false],
    ] as const) {
      const response = await gateway.call(path, { model: "asked", input: "Hello", stream });
      expect(stepHeaders(response)).toEqual(["saver", "1", "too_long"]);
      await readServed(gateway, response);
    }
  });
});

describe("the request stays at its first step", () => {
  test("for limits of its key and of its user", async () => {
    for (const part of [{ key: { limits: { rpm: 1 } } }, { user: { limits: { rpm: 1 } } }]) {
      const gateway = await start({
        ...part,
        first: "sim-fast",
        steps: [{ group: "standard", when: ["busy", "failing", "window_used"] }],
      });
      await readServed(gateway, await ask(gateway));
      await expectCode(await ask(gateway), 429, "rate_limit_exceeded");
    }
  });

  test("for a mistake of the client and for a content filter", async () => {
    for (const code of ["invalid_value", "content_filter"]) {
      const upstream = Bun.serve({
        hostname: "127.0.0.1",
        port: 0,
        fetch: () => Response.json({ error: { message: "Rejected.", code } }, { status: 400 }),
      });
      const gateway = await start({
        firstAccount: { base_url: `http://127.0.0.1:${upstream.port}/v1` },
        steps: [{ group: "standard", when: ["busy", "failing", "too_long"] }],
      });
      for (const stream of [false, true]) {
        const response = await ask(gateway, { stream });
        const error = asRecord(asRecord(await response.json()).error);
        expect([response.status, error.code, error.tried]).toEqual([400, code, undefined]);
      }
      await upstream.stop(true);
    }
  });

  test("if the key or the client allows no fallback", async () => {
    const denied = await start({ key: { fallback: "deny" } });
    await expectCode(await ask(denied), 502, "upstream_error");
    const gateway = await start();
    await expectCode(await ask(gateway, {}, { "x-gateway-fallback": "none" }), 502, "upstream_error");
  });

  test("if the step is dearer than the client allows", async () => {
    const gateway = await start();
    const rejected = await ask(gateway, {}, { "x-gateway-max-price": "3.9" });
    const error = asRecord(asRecord(await rejected.json()).error);
    expect(error.tried).toEqual([
      { group: "saver", model: "asked", reason: "failing" },
      { group: "standard", model: "asked", reason: "price" },
    ]);
    await readServed(gateway, await ask(gateway, {}, { "x-gateway-max-price": "4" }));
    for (const wrong of ["0", "-1", "1e3", "cheap", ""])
      await expectCode(await ask(gateway, {}, { "x-gateway-max-price": wrong }), 400, "invalid_value");
    await expectCode(await ask(gateway, {}, { "x-gateway-fallback": "no" }), 400, "invalid_value");
  });

  test("if it uses what only the upstream of that step has", async () => {
    const gateway = await start();
    for (const body of [
      { input: "Hello", background: true, store: true },
      { input: [{ type: "item_reference", id: "msg_1" }] },
      { input: "Hello", prompt: { id: "pmpt_1" } },
      { input: "Hello", conversation: "conv_1" },
      { input: "Hello", tools: [{ type: "file_search", vector_store_ids: ["vs_1"] }] },
    ]) {
      const response = await gateway.call("/v1/responses", { model: "asked", ...body });
      const { tried } = asRecord(asRecord(await response.json()).error);
      expect(tried).toContainEqual({ group: "standard", model: "asked", reason: "stateful" });
    }
  });

  test("if the request policy of the step rejects it", async () => {
    const gateway = await start({
      policies: [{ name: "short", input_tokens: { max: 100 } }],
      standard: { request_policy: "short" },
    });
    const response = await ask(gateway, { messages: [{ role: "user", content: "Hello ".repeat(500) }] });
    const { tried } = asRecord(asRecord(await response.json()).error);
    expect(tried).toContainEqual({ group: "standard", model: "asked", reason: "policy" });
  });

  test("if the user cannot pay for the step, whose error is not shown", async () => {
    const gateway = await start({ user: { balance: "0.0003" } });
    const response = await ask(gateway, { max_completion_tokens: 16 });
    expect(response.status).toBe(502);
    expect(asRecord(asRecord(await response.json()).error).tried).toContainEqual({
      group: "standard",
      model: "asked",
      reason: "insufficient_funds",
    });
    expect((await gateway.records.wallet()).balanceNano).toBe(300_000n);
  });
});
