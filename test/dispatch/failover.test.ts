/** Until content has been delivered, failures of accounts are hidden from the client by failover. */

import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { LedgerEntry } from "../../simulator/ledger.ts";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { eventually } from "../support/eventually.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import { asRecord, eventsIn } from "../support/sse-text.ts";

const CLOSED_KEY = "closed-port-key-0123456789-0123456789-01";
const WEIGHTS_KEY = "weights-key-0123456789-0123456789-012345";
const MANY_KEY = "many-accounts-key-0123456789-0123456789-";

const FILE = `
models: [{ id: pooled, interfaces: [chat, responses, embeddings, images] }]
accounts:
  - { name: first, kind: openai, base_url: "\${SIMULATOR_URL}", credential: a, private_network: true, priority: 1, models: { pooled: sim-fast } }
  - { name: second, kind: openai, base_url: "\${SECOND_URL}", credential: b, private_network: true, priority: 2, models: { pooled: sim-other } }
  - { name: closed, kind: openai, base_url: "\${CLOSED_URL}", credential: c, private_network: true, priority: 0, models: { pooled: sim-fast } }
  - { name: heavy, kind: openai, base_url: "\${SIMULATOR_URL}", credential: d, private_network: true, weight: 3, models: { pooled: sim-heavy } }
  - { name: light, kind: openai, base_url: "\${SIMULATOR_URL}", credential: e, private_network: true, weight: 1, models: { pooled: sim-light } }
  - { name: spare, kind: openai, base_url: "\${SIMULATOR_URL}", credential: f, private_network: true, priority: 9, models: { pooled: sim-spare } }
groups:
  - { name: default, models: [pooled], accounts: [second, first] }
  - { name: closed, models: [pooled], accounts: [closed, second] }
  - { name: weights, models: [pooled], accounts: [heavy, light, spare] }
  - { name: many, models: [pooled], accounts: [first, heavy, light, spare] }
keys:
  - { name: test, group: default, secret: ${TEST_KEY} }
  - { name: closed, group: closed, secret: ${CLOSED_KEY} }
  - { name: weights, group: weights, secret: ${WEIGHTS_KEY} }
  - { name: many, group: many, secret: ${MANY_KEY} }
`;

interface Ask {
  path: string;
  body: Record<string, unknown>;
}

const CHAT = { messages: [{ role: "user", content: "Hello" }] };
const ASKS = {
  chat: { path: "/v1/chat/completions", body: CHAT },
  "chat stream": { path: "/v1/chat/completions", body: { ...CHAT, stream: true } },
  response: { path: "/v1/responses", body: { input: "Hello" } },
  "response stream": { path: "/v1/responses", body: { input: "Hello", stream: true } },
  embedding: { path: "/v1/embeddings", body: { input: "Hello" } },
  image: { path: "/v1/images/generations", body: { prompt: "Hello" } },
  "image stream": { path: "/v1/images/generations", body: { prompt: "Hello", stream: true } },
} as const satisfies Record<string, Ask>;
type AskName = keyof typeof ASKS;
const ALL_ASKS = Object.keys(ASKS).filter((name): name is AskName => name in ASKS);
const STREAMS = ALL_ASKS.filter((name) => name.endsWith("stream"));

/** Faults before any content, for every kind of request. */
const FAULTS_OF_ALL = [
  "refuse",
  "rst",
  "401",
  "403",
  "404",
  "429",
  "429@retry=2",
  "429-quota",
  "500",
  "502",
  "503",
  "529",
  "html",
  "redirect",
  "badjson",
  "rst@byte10",
  "cut@byte10",
];
const FAULTS_OF_STREAMS = ["rst@chunk0", "cut@chunk0", "error-in-stream@chunk0", "gzip"];
const FAULTS_OF_TEXT_STREAMS = [
  "rst@chunk1",
  "cut@chunk1",
  "error-in-stream@chunk1",
  "capacity-in-stream",
  "empty",
];
const FAULTS_OF_WHOLE_RESPONSES = ["empty", "truncated"];

let gateway: RunningGateway;
let first: Simulator;
let second: Simulator;

/** A new gateway for each test, because a failed account cools down. */
beforeEach(async () => {
  second = startSimulator({ record: "full", seed: 2 });
  const closed = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const closedUrl = `http://127.0.0.1:${closed.port}/v1`;
  closed.stop(true);
  gateway = await startTestGateway({
    file: FILE,
    environment: { SECOND_URL: second.url, CLOSED_URL: closedUrl },
    limits: { firstByteTimeoutMs: 1_200, unaryTimeoutMs: 1_200 },
  });
  first = gateway.simulator;
});

afterEach(async () => {
  await gateway.stop();
  await second.stop();
});

function ask(name: AskName, key = TEST_KEY): Promise<Response> {
  const { path, body } = ASKS[name];
  return gateway.call(path, { ...body, model: "pooled" }, { headers: { authorization: `Bearer ${key}` } });
}

async function readRow(response: Response): Promise<Record<string, unknown>> {
  const id = response.headers.get("x-request-id");
  const rows = await gateway.installation.db.sql`
    SELECT usage.*, account.name AS account FROM usage LEFT JOIN account ON account.id = usage.account_id
    WHERE request_id = ${id}`;
  expect(rows.length).toBe(1);
  return asRecord(rows[0]);
}

const requestsAt = (simulator: Simulator) => simulator.ledger.totals().requests;

async function expectServedBySecond(name: AskName, response: Response, attempts: number): Promise<void> {
  const text = await response.text();
  expect(response.status, text).toBe(200);
  expect(text).not.toContain('"error":{');
  expect(text).not.toContain("response.failed");
  expect(text).not.toContain(": keep-alive");
  if (STREAMS.includes(name)) {
    const types = eventsIn(text).map(({ type, data }) => type ?? data);
    expect(types.filter((type) => /\[DONE\]|completed$/.test(type)).length).toBe(
      name === "response stream" ? 2 : 1,
    );
    expect(types.filter((type) => type === "response.created").length).toBe(
      name === "response stream" ? 1 : 0,
    );
  } else {
    expect(() => JSON.parse(text)).not.toThrow();
  }
  expect(requestsAt(second)).toBe(1);
  await eventually(() => second.ledger.totals().inFlight, { equals: 0 });
  const truth: LedgerEntry | null = second.ledger.last();
  await gateway.usageRows();
  expect(await readRow(response)).toMatchObject({
    account: "second",
    upstream_model: "sim-other",
    attempts,
    status: 200,
    outcome: "completed",
    error_code: null,
    input_tokens: truth?.inputTokens ?? -1,
    output_tokens: truth?.outputTokens ?? -1,
  });
}

describe("a fault before content is invisible to the client", () => {
  const cases = [
    ...ALL_ASKS.flatMap((name) => FAULTS_OF_ALL.map((fault) => ({ name, fault }))),
    ...STREAMS.flatMap((name) => FAULTS_OF_STREAMS.map((fault) => ({ name, fault }))),
    ...(["chat stream", "response stream"] as const).flatMap((name) =>
      FAULTS_OF_TEXT_STREAMS.map((fault) => ({ name, fault })),
    ),
    ...ALL_ASKS.filter((name) => !STREAMS.includes(name)).flatMap((name) =>
      FAULTS_OF_WHOLE_RESPONSES.map((fault) => ({ name, fault })),
    ),
  ];

  test.each(cases)("$fault on the preferred account ($name)", async ({ name, fault }) => {
    first.force(fault);
    const response = await ask(name);
    await expectServedBySecond(name, response, 2);
    expect(requestsAt(first)).toBe(1);
  });

  test.each(ALL_ASKS)("a port without a listener (%s)", async (name) => {
    await expectServedBySecond(name, await ask(name, CLOSED_KEY), 2);
  });

  test("an account that does not respond within its timeout", async () => {
    first.force("blackhole");
    const names = ["chat", "chat stream", "response stream"] as const;
    const responses = await Promise.all(names.map((name) => ask(name)));
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 200]);
    await Promise.all(responses.map((response) => response.text()));
    await gateway.usageRows();
    for (const response of responses) {
      expect(await readRow(response)).toMatchObject({ account: "second", attempts: 2, outcome: "completed" });
    }
    await eventually(() => first.ledger.totals().inFlight, { equals: 0 });
  });
});

describe("when every account fails", () => {
  const cases: { fault: string; status: number; code: string; retryAfter?: string }[] = [
    { fault: "refuse", status: 502, code: "upstream_error" },
    { fault: "401", status: 503, code: "no_available_account" },
    { fault: "404", status: 503, code: "no_available_account" },
    { fault: "429-quota", status: 503, code: "no_available_account" },
    // The simulator's message names an earlier time than this header.
    { fault: "429@retry=7", status: 429, code: "rate_limit_exceeded", retryAfter: "7" },
    { fault: "429", status: 429, code: "rate_limit_exceeded", retryAfter: "2" },
    { fault: "500", status: 502, code: "upstream_error" },
    // By then both accounts cool down for 2 to 10 s.
    { fault: "503", status: 503, code: "server_is_overloaded", retryAfter: "any" },
    { fault: "529", status: 503, code: "server_is_overloaded", retryAfter: "any" },
    { fault: "html", status: 502, code: "upstream_error" },
    { fault: "capacity-in-stream", status: 503, code: "server_is_overloaded", retryAfter: "any" },
    { fault: "rst@byte10", status: 502, code: "upstream_error" },
  ];

  test.each(cases.flatMap((one) => (["chat", "response stream"] as const).map((name) => ({ ...one, name }))))(
    "the client gets one error: $fault is $status $code ($name)",
    async ({ name, ...responded }) => {
      first.force(responded.fault);
      second.force(responded.fault);
      const response = await ask(name);
      expect(response.status).toBe(responded.status);
      const retryAfter = response.headers.get("retry-after");
      if (responded.retryAfter === "any") expect(retryAfter).toMatch(/^([2-9]|10)$/);
      else expect(retryAfter).toBe(responded.retryAfter ?? null);
      const { error } = asRecord(await response.json());
      expect(error).toMatchObject({ code: responded.code, request_id: response.headers.get("x-request-id") });
      expect([requestsAt(first), requestsAt(second)]).toEqual([1, 1]);
      await gateway.usageRows();
      expect(await readRow(response)).toMatchObject({
        status: responded.status,
        outcome: "failed",
        error_code: responded.code,
        attempts: 2,
        usage_source: "none",
      });
    },
  );

  test("no account is tried twice, and at most three are tried", async () => {
    first.force("500");
    const response = await ask("chat", MANY_KEY);
    expect(response.status).toBe(502);
    const asked = first.ledger.entries().map(({ model }) => model);
    expect(asked.length).toBe(3);
    expect(new Set(asked).size).toBe(3);
    await gateway.usageRows();
    expect(await readRow(response)).toMatchObject({ attempts: 3 });
  });

  test("a single broken account is tried once", async () => {
    second.force("500");
    const response = await ask("chat", CLOSED_KEY);
    expect(response.status).toBe(502);
    expect(requestsAt(second)).toBe(1);
  });
});

describe("no failover happens", () => {
  test.each(
    (["chat", "chat stream", "response"] as const).flatMap((name) =>
      ["400", "context", "canary@400"].map((fault) => ({ name, fault })),
    ),
  )("for an invalid request: $fault ($name)", async ({ name, fault }) => {
    first.force(fault);
    const response = await ask(name);
    expect(response.status).toBe(400);
    expect([requestsAt(first), requestsAt(second)]).toEqual([1, 0]);
    await gateway.usageRows();
    expect(await readRow(response)).toMatchObject({
      account: "first",
      attempts: 1,
      outcome: "failed",
      status: 400,
    });
  });

  test.each(["chat stream", "response stream"] as const)("for a stream that has begun (%s)", async (name) => {
    first.force("rst@chunk6,events=9");
    const response = await ask(name);
    expect(response.status).toBe(200);
    const failures = eventsIn(await response.text()).filter(
      ({ type, data }) => type === "response.failed" || data.startsWith('{"error":'),
    );
    expect(failures.length).toBe(1);
    expect(requestsAt(second)).toBe(0);
    await gateway.usageRows();
    expect(await readRow(response)).toMatchObject({ account: "first", attempts: 1, outcome: "upstream_cut" });
  });
});

describe("the choice between healthy accounts", () => {
  test("always prefers the lower priority number", async () => {
    for (let i = 0; i < 20; i++) await (await ask("chat")).text();
    expect([requestsAt(first), requestsAt(second)]).toEqual([20, 0]);
  });

  test("follows the weights within a priority", async () => {
    const total = 400;
    let left = total;
    await Promise.all(
      Array.from({ length: 8 }, async () => {
        while (left-- > 0) await (await ask("embedding", WEIGHTS_KEY)).text();
      }),
    );
    const { requests: heavy } = first.ledger.modelTotals("sim-heavy");
    const { requests: light } = first.ledger.modelTotals("sim-light");
    expect(heavy + light).toBe(total);
    // Three in four are expected; the bounds are seven standard deviations away.
    expect(heavy / total).toBeGreaterThan(0.6);
    expect(heavy / total).toBeLessThan(0.9);
  });
});
