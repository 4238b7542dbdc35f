/**
 * Web searches are paid for before they are made: held within the limit of the request or of its group, sent as that
 * limit where the dialect has one, and charged at most so.
 */

import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { limits } from "../../src/config/limits/product-limits.ts";
import { eventually } from "../support/eventually.ts";
import { doneId, type PaidGateway, type PaidSetup, startPaidGateway } from "../support/paid-gateway.ts";

setDefaultTimeout(60_000);

/** A search costs $0.01, the longest output of a request $0.0001. */
const PRICE = { input: "0", output: "1", per_call: { web_search: "0.01" } };
const OUTPUT_MAX = 100;
const INTERFACES = ["chat", "responses", "messages", "gemini"];
const ACCOUNTS = { openai: "openai", anthropic: "anthropic", gemini: "gemini" } as const;
const OWN_KEY = "own-limits-key-0123456789-0123456789-012345";

/** What the upstream received. */
interface ReceivedBody {
  readonly max_tool_calls?: number;
  readonly tools?: readonly { readonly max_uses?: number }[];
}

interface Dialect {
  readonly path: string;
  readonly body: object;
  /** Reads the limit that the upstream received. */
  readonly readLimit: (body: ReceivedBody) => number | undefined;
}

const TURNS = [{ role: "user", content: "What is new?" }];
const CONTENTS = [{ role: "user", parts: [{ text: "What is new?" }] }];
const SEARCH = { type: "web_search_20250305", name: "web_search" };
const DIALECTS = {
  responses: {
    path: "/v1/responses",
    body: { model: "openai", input: "What is new?", store: false, tools: [{ type: "web_search" }] },
    readLimit: (body) => body.max_tool_calls,
  },
  "responses in a namespace": {
    path: "/v1/responses",
    body: {
      model: "openai",
      input: "What is new?",
      store: false,
      tools: [{ type: "namespace", name: "n", description: "d", tools: [{ type: "web_search" }] }],
    },
    readLimit: (body) => body.max_tool_calls,
  },
  "responses by an item": {
    path: "/v1/responses",
    body: {
      model: "openai",
      input: [{ type: "additional_tools", role: "developer", tools: [{ type: "web_search" }] }, ...TURNS],
      store: false,
    },
    readLimit: (body) => body.max_tool_calls,
  },
  messages: {
    path: "/v1/messages",
    body: { model: "anthropic", messages: TURNS, max_tokens: OUTPUT_MAX, tools: [SEARCH] },
    readLimit: (body) => body.tools?.[0]?.max_uses,
  },
  chat: {
    path: "/v1/chat/completions",
    body: { model: "gemini", messages: TURNS, web_search_options: {} },
    readLimit: () => undefined,
  },
  gemini: {
    path: "/v1beta/models/gemini:generateContent",
    body: { contents: CONTENTS, tools: [{ googleSearch: {} }] },
    readLimit: () => undefined,
  },
  "gemini with a single tool": {
    path: "/v1beta/models/gemini:generateContent",
    body: { contents: CONTENTS, tools: { googleSearch: {} } },
    readLimit: () => undefined,
  },
  "gemini with cached content": {
    path: "/v1beta/models/gemini:generateContent",
    body: { contents: CONTENTS, cachedContent: "cachedContents/1" },
    readLimit: () => undefined,
  },
  "chat to messages": {
    path: "/v1/chat/completions",
    body: { model: "anthropic", messages: TURNS, web_search_options: {} },
    readLimit: (body) => body.tools?.[0]?.max_uses,
  },
  "messages to responses": {
    path: "/v1/messages",
    body: { model: "openai", messages: TURNS, max_tokens: OUTPUT_MAX, tools: [SEARCH] },
    readLimit: (body) => body.max_tool_calls,
  },
} as const satisfies Record<string, Dialect>;
type DialectName = keyof typeof DIALECTS;
const NAMES = Object.keys(DIALECTS) as DialectName[];

let searches = 0;
let received: ReceivedBody | null = null;
let upstream: ReturnType<typeof Bun.serve>;
const running: PaidGateway[] = [];

beforeAll(() => {
  upstream = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: respond });
});
afterEach(async () => {
  searches = 0;
  received = null;
  for (const gateway of running.splice(0)) {
    expect(await gateway.records.holds()).toBe(0);
    await gateway.records.expectReconciled();
    await gateway.stop();
  }
});
afterAll(() => upstream.stop(true));

async function respond(request: Request): Promise<Response> {
  received = JSON.parse(await request.text());
  const { pathname } = new URL(request.url);
  if (pathname.endsWith("/messages"))
    return Response.json({
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: "up",
      content: [{ type: "text", text: "Hi" }],
      stop_reason: "end_turn",
      stop_sequence: null,
      usage: { input_tokens: 10, output_tokens: 5, server_tool_use: { web_search_requests: searches } },
    });
  if (pathname.includes(":generateContent"))
    return Response.json({
      candidates: [
        {
          content: { role: "model", parts: [{ text: "Hi" }] },
          finishReason: "STOP",
          index: 0,
          groundingMetadata: { webSearchQueries: Array.from({ length: searches }, (_, i) => `q${i}`) },
        },
      ],
      usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15 },
      modelVersion: "up",
    });
  const calls = Array.from({ length: searches }, (_, at) => ({
    type: "web_search_call",
    id: `ws_${at}`,
    status: "completed",
    action: { type: "search", query: "q" },
  }));
  return Response.json({
    id: "resp_1",
    object: "response",
    created_at: 1,
    model: "up",
    status: "completed",
    output: [
      ...calls,
      { type: "message", id: "m", role: "assistant", content: [{ type: "output_text", text: "Hi" }] },
    ],
    usage: { input_tokens: 10, output_tokens: 5, total_tokens: 15 },
  });
}

async function start(setup: PaidSetup): Promise<PaidGateway> {
  const origin = `http://127.0.0.1:${upstream.port}`;
  const names = Object.keys(ACCOUNTS) as (keyof typeof ACCOUNTS)[];
  const more = { interfaces: INTERFACES, max_output_tokens: OUTPUT_MAX };
  const gateway = await startPaidGateway(
    {
      ...setup,
      models: Object.fromEntries(names.map((name) => [name, { upstream: "up", price: PRICE, more }])),
      accounts: names.map((name) => ({
        name,
        kind: ACCOUNTS[name],
        credential: "credential",
        private_network: true,
        base_url: name === "openai" ? `${origin}/v1` : origin,
        models: { [name]: "up" },
      })),
      group: { interfaces: INTERFACES, ...setup.group },
    },
    { limits: { writeBehind: { ...limits.writeBehind, busyHolds: Number.POSITIVE_INFINITY } } },
  );
  running.push(gateway);
  return gateway;
}

const send = (gateway: PaidGateway, name: DialectName, more: object = {}) =>
  gateway.call(DIALECTS[name].path, { ...DIALECTS[name].body, ...more });
const sentLimit = (name: DialectName) => DIALECTS[name].readLimit(received ?? {});
const hasField = (name: DialectName) => name !== "chat" && !name.startsWith("gemini");

/** Every payer with this much to spend. */
const PAYERS = {
  balance: (usd: string): PaidSetup => ({ balance: usd }),
  subscription: (usd: string): PaidSetup => ({
    billing: { charge: "subscription" },
    plans: [{ name: "pro", windows: [{ per: "day", usd }] }],
    subscriptions: [{ plan: "pro" }],
  }),
  "USD window": (usd: string): PaidSetup => ({
    billing: { charge: "none" },
    group: { limits: { windows: [{ per: "5h", usd }] } },
  }),
} as const;

describe.each(Object.entries(PAYERS))("%s", (_, payerWith) => {
  test("pays for as many searches as the group allows, and the limit is sent", async () => {
    const gateway = await start(payerWith("5"));
    for (const name of NAMES) {
      searches = 10;
      const row = await gateway.records.row(await doneId(await send(gateway, name)));
      expect([name, row.webSearches, row.flags]).toEqual([name, 10, []]);
      expect(row.costNano).toBe(100_005_000n);
      expect([name, sentLimit(name)]).toEqual([name, hasField(name) ? 10 : undefined]);
    }
  });

  test("that affords fewer gets fewer", async () => {
    const gateway = await start(payerWith("0.055"));
    for (const name of NAMES) {
      const row = await gateway.records.row(await doneId(await send(gateway, name)));
      expect(row.flags).toEqual(["capped"]);
      expect([name, sentLimit(name)]).toEqual([name, hasField(name) ? 5 : undefined]);
    }
  });

  test("that affords none gets the error of an empty balance", async () => {
    const gateway = await start(payerWith("0.015"));
    searches = 1;
    await doneId(await send(gateway, "responses"));
    received = null;
    for (const name of NAMES) {
      const response = await send(gateway, name);
      expect([name, response.status]).toEqual([name, name.startsWith("messages") ? expect.any(Number) : 429]);
      expect(await response.text()).toMatch(/balance is|subscription has|Usage limit reached/);
    }
    expect(received).toBeNull();
  });
});

describe("a limit of the request", () => {
  test.each([
    ["responses", { max_tool_calls: 3 }],
    ["messages", { tools: [{ ...SEARCH, max_uses: 3 }] }],
    ["messages to responses", { tools: [{ ...SEARCH, max_uses: 3 }] }],
  ] as const)("of %s is held and kept", async (name, more) => {
    const gateway = await start({ balance: "5", group: { web_searches_max: 1 } });
    searches = 3;
    const row = await gateway.records.row(await doneId(await send(gateway, name, more)));
    expect(row).toMatchObject({ webSearches: 3, flags: [], chargedNano: 30_005_000n });
    expect(sentLimit(name)).toBe(3);
  });
});

test("searches above the bound are the operator's cost and an alert, and the account stays in use", async () => {
  const gateway = await start({ balance: "5", group: { web_searches_max: 2 } });
  searches = 12;
  for (let round = 0; round < 4; round++) {
    const row = await gateway.records.row(await doneId(await send(gateway, "gemini")));
    expect(row).toMatchObject({ webSearches: 2, flags: ["clamped"], chargedNano: 20_005_000n });
    expect(row.upstreamNano).toBe(120_005_000n);
  }
  expect(gateway.log.filter((line) => line.includes("searches_bounded"))).toHaveLength(4);
  const alerts = await eventually(async () => {
    const found = await gateway.installation.db.sql`SELECT rule, subject FROM alert`;
    return found.length > 0 ? found : null;
  });
  expect(alerts).toContainEqual(
    expect.objectContaining({ rule: "billing_fault", subject: "searches_bounded" }),
  );
});

test("without a payer and without a USD limit the body stays as it is", async () => {
  const keys = [{ name: "own", group: "free", secret: OWN_KEY }];
  const groups = [
    {
      name: "free",
      interfaces: INTERFACES,
      models: Object.keys(ACCOUNTS),
      accounts: Object.keys(ACCOUNTS),
      web_searches_max: 2,
    },
  ];
  const gateway = await start({ balance: "5", groups, keys });
  searches = 12;
  const headers = { authorization: `Bearer ${OWN_KEY}` };
  const id = await doneId(await gateway.call(DIALECTS.messages.path, DIALECTS.messages.body, { headers }));
  expect((await gateway.records.row(id)).webSearches).toBe(12);
  expect(received).toMatchObject({ tools: [SEARCH] });
});

test("an account that rejects the limit gets the request without it, and for an hour directly so", async () => {
  const gateway = await start({ balance: "5" });
  const bodies: ReceivedBody[] = [];
  upstream.reload({
    async fetch(request) {
      const body: ReceivedBody = JSON.parse(await request.clone().text());
      bodies.push(body);
      if (body.max_tool_calls === undefined) return respond(request);
      const message = "Unsupported parameter: max_tool_calls";
      return Response.json(
        { error: { message, param: "max_tool_calls", type: "invalid_request_error" } },
        { status: 400 },
      );
    },
  });
  try {
    await doneId(await send(gateway, "responses"));
    await doneId(await send(gateway, "responses"));
    expect(bodies.map((body) => body.max_tool_calls)).toEqual([10, undefined, undefined]);
  } finally {
    upstream.reload({ fetch: respond });
  }
});
