/** A conversation stays on its account, where its prompt is cached and its reasoning can be decrypted. */

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { expectRejection } from "../support/error-envelope.ts";
import {
  type PooledGateway,
  type RequestSetup,
  seenBy,
  startPooledGateway,
} from "../support/pooled-gateway.ts";
import { asRecord } from "../support/sse-text.ts";

const ACCOUNTS = 4;
/** Enough that every account gets one: by chance this fails once in ten million runs. */
const CONVERSATIONS = 64;
const TURNS = 4;

const times = <T>(count: number, make: (i: number) => T) => Array.from({ length: count }, (_, i) => make(i));

/** Returns the account of each response after reading it to its end. */
async function listAccounts(gateway: PooledGateway, asks: readonly RequestSetup[]): Promise<string[]> {
  const ids: string[] = [];
  for (const ask of asks) {
    const response = await gateway.send(ask);
    const text = await response.text();
    expect([response.status, text]).toEqual([200, text]);
    ids.push(response.headers.get("x-request-id") ?? "");
  }
  const rows = await gateway.usageRows();
  const accountByRequest = new Map(rows.map((row) => [row.request_id, String(row.account_id)]));
  return ids.map((id) => accountByRequest.get(id) ?? "none");
}

const message = (role: string, content: string) => ({ role, content });

/** How clients identify a conversation. */
const NAMES: Record<string, (conversation: number, turn: number) => RequestSetup> = {
  "a session-id header": (n) => ({ headers: { "session-id": `session-${n}` } }),
  "a session_id header": (n) => ({ headers: { session_id: `session-${n}` } }),
  "a thread-id header": (n) => ({ headers: { "thread-id": `thread-${n}` }, stream: true }),
  "an x-session-affinity header": (n) => ({
    headers: { "x-session-affinity": `s-${n}` },
    family: "responses",
  }),
  "a prompt_cache_key": (n) => ({ family: "responses", more: { prompt_cache_key: `cache-${n}` } }),
  "its first messages": (n, turn) => ({
    more: {
      messages: [
        message("system", "You are helpful."),
        message("user", `Question ${n}`),
        ...times(turn + 1, (i) => message(i % 2 === 0 ? "assistant" : "user", `Then ${i}`)),
      ],
    },
  }),
  "the first items of its input": (n, turn) => ({
    family: "responses",
    more: {
      input: [
        message("user", `Question ${n}`),
        message("assistant", "An answer"),
        ...times(turn + 1, (i) => message("user", `Then ${i}`)),
      ],
    },
  }),
};

describe("on several accounts", () => {
  let gateway: PooledGateway;

  beforeAll(async () => {
    gateway = await startPooledGateway({
      accounts: times(ACCOUNTS, () => ({})),
      keys: { a: {}, b: {} },
    });
  });

  afterAll(() => gateway.stop());

  test.each(Object.entries(NAMES))(
    "a conversation identified by %s stays on one account",
    async (_, askOf) => {
      const conversations = await Promise.all(
        times(CONVERSATIONS, (n) =>
          listAccounts(
            gateway,
            times(TURNS, (turn) => ({ key: "a", ...askOf(n, turn) })),
          ),
        ),
      );
      for (const accounts of conversations) expect(new Set(accounts).size).toBe(1);
      // And every account has conversations.
      expect(new Set(conversations.map(([account]) => account)).size).toBe(ACCOUNTS);
    },
  );

  test("the same name with two keys is two conversations", async () => {
    const named = (key: string) =>
      times(CONVERSATIONS, (n): RequestSetup => ({ key, headers: { "session-id": `session-${n}` } }));
    const [a, b] = await Promise.all([listAccounts(gateway, named("a")), listAccounts(gateway, named("b"))]);
    expect(a).not.toEqual(b);
  });

  test("requests without a conversation are spread over the accounts", async () => {
    const accounts = await listAccounts(
      gateway,
      times(80, () => ({ key: "a" })),
    );
    // Spread by load and speed, so not evenly: the slowest of four can be unused while the others are idle.
    const shares = [...new Set(accounts)].map((account) => accounts.filter((one) => one === account).length);
    expect(shares.length).toBeGreaterThanOrEqual(ACCOUNTS - 1);
    expect(Math.max(...shares)).toBeLessThan(64);
  });
});

describe("when an account fails", () => {
  let gateway: PooledGateway;

  afterEach(() => gateway.stop());

  test("its conversations move at once, each to one other account, and the others stay", async () => {
    gateway = await startPooledGateway({ accounts: times(ACCOUNTS, () => ({})), keys: { a: {} } });
    const conversations = times(
      CONVERSATIONS,
      (n): RequestSetup => ({ key: "a", headers: { "session-id": `s-${n}` } }),
    );
    const before = await listAccounts(gateway, conversations);
    gateway.upstreams[0]?.force("500");
    const after = await listAccounts(gateway, conversations);
    const again = await listAccounts(gateway, conversations);
    const rows = await gateway.installation.db.sql`SELECT id FROM account WHERE name = 'account-0'`;
    const broken = String(rows[0]?.id);
    expect(before).toContain(broken);
    expect(after).not.toContain(broken);
    expect(again).toEqual(after);
    for (const [i, account] of before.entries()) if (account !== broken) expect(after[i]).toBe(account);
  });

  test("a conversation whose account is full moves instead of waiting", async () => {
    gateway = await startPooledGateway({
      accounts: times(2, () => ({ models: { pooled: "sim-fast@first=300ms" }, limits: { concurrency: 1 } })),
      keys: { a: {} },
    });
    const ask: RequestSetup = { key: "a", headers: { "session-id": "one" } };
    const responses = await Promise.all([gateway.send(ask), gateway.send(ask)]);
    await Promise.all(responses.map((response) => response.text()));
    expect(seenBy(gateway)).toEqual([1, 1]);
    const rows = await gateway.usageRows();
    expect(rows.map(({ wait_ms }) => wait_ms)).toEqual([0, 0]);
  });
});

describe("the continuation of a response", () => {
  let gateway: PooledGateway;

  beforeAll(async () => {
    gateway = await startPooledGateway({ accounts: times(ACCOUNTS, () => ({})), keys: { a: {}, b: {} } });
  });

  afterAll(() => gateway.stop());

  async function begin(stream: boolean): Promise<{ id: string; account: Simulator | undefined }> {
    const before = seenBy(gateway);
    const response = await gateway.send({ key: "a", family: "responses", stream });
    const text = await response.text();
    const id = /"id":"(resp_[^"]+)"/.exec(text)?.[1] ?? "";
    const at = seenBy(gateway).findIndex((seen, i) => seen > (before[i] ?? 0));
    return { id, account: gateway.upstreams[at] };
  }

  test.each([false, true])("runs on the account of that response (stream: %p)", async (stream) => {
    const { id, account } = await begin(stream);
    const before = account?.ledger.totals().requests ?? 0;
    for (let i = 0; i < 12; i++) {
      const response = await gateway.send({
        key: "a",
        family: "responses",
        stream: i % 2 === 0,
        more: { previous_response_id: id },
      });
      await response.text();
      expect(response.status).toBe(200);
    }
    expect(account?.ledger.totals().requests).toBe(before + 12);
  });

  test("is rejected with another key", async () => {
    const { id } = await begin(false);
    const before = seenBy(gateway);
    const response = await gateway.send({
      key: "b",
      family: "responses",
      more: { previous_response_id: id },
    });
    expect(await expectRejection(response, 400)).toMatchObject({
      code: "previous_response_not_found",
      param: "previous_response_id",
    });
    expect(seenBy(gateway)).toEqual(before);
  });

  test("is not sent to another account", async () => {
    const { id, account } = await begin(false);
    const before = seenBy(gateway).reduce((sum, seen) => sum + seen, 0);
    account?.force("400", 1);
    const refused = await gateway.send({ key: "a", family: "responses", more: { previous_response_id: id } });
    expect(refused.status).toBe(400);
    account?.force("503", 1);
    const failed = await gateway.send({ key: "a", family: "responses", more: { previous_response_id: id } });
    expect(failed.status).toBe(503);
    await Promise.all([refused.text(), failed.text()]);
    expect(seenBy(gateway).reduce((sum, seen) => sum + seen, 0)).toBe(before + 2);
  });
});

describe("reasoning that another account encrypted", () => {
  const UNREADABLE = {
    error: {
      message: "The encrypted content could not be verified.",
      type: "invalid_request_error",
      param: null,
      code: "invalid_encrypted_content",
    },
  };
  let simulator: Simulator;
  let upstream: ReturnType<typeof Bun.serve>;
  let gateway: PooledGateway;
  let received: string[] = [];
  /** Whether the upstream accepts the conversation without that reasoning. */
  let understands = true;

  beforeAll(async () => {
    simulator = startSimulator({});
    upstream = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      async fetch(request) {
        const text = await request.text();
        received.push(text);
        if (!understands || text.includes("encrypted_content"))
          return Response.json(UNREADABLE, { status: 400 });
        return fetch(`${simulator.url}/responses`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: text,
        });
      },
    });
    gateway = await startPooledGateway({ accounts: [{ url: `http://127.0.0.1:${upstream.port}/v1` }] });
  });

  afterEach(() => {
    received = [];
    understands = true;
  });

  afterAll(async () => {
    await gateway.stop();
    await upstream.stop(true);
    await simulator.stop();
  });

  const REASONING = `{"type" : "reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAA\\u0041=="}`;
  const QUESTION = `{ "role":"user", "content" : "1e999 \\u00e9 [,] " }`;
  const CALL = `{"type":"function_call","call_id":"c1","name":"f","arguments":"{\\"x\\": 1.0}"}`;
  const RESULT = `{"type":"function_call_output", "call_id":"c1", "output":"{\\"reasoning\\":[1,2]}"}`;
  const buildBody = (items: readonly string[], model: string, stream: boolean) =>
    `{ "seed":12345678901234567890,"input":[${items}] ,"model":"${model}","stream":${stream},  "store":false}`;

  test.each([false, true])("is removed, and nothing else is changed (stream: %p)", async (stream) => {
    const sent = buildBody([QUESTION, REASONING, CALL, RESULT, REASONING], "pooled", stream);
    const response = await gateway.call("/v1/responses", sent);
    const text = await response.text();
    expect([response.status, text]).toEqual([200, text]);
    expect(received).toEqual([
      buildBody([QUESTION, REASONING, CALL, RESULT, REASONING], "sim-fast", stream),
      buildBody([QUESTION, CALL, RESULT], "sim-fast", stream),
    ]);
  });

  test.each([false, true])(
    "is removed once, and a second rejection is delivered (stream: %p)",
    async (stream) => {
      understands = false;
      const response = await gateway.call(
        "/v1/responses",
        buildBody([QUESTION, REASONING], "pooled", stream),
      );
      expect(await expectRejection(response, 400)).toMatchObject({ code: "invalid_encrypted_content" });
      expect(received.length).toBe(2);
    },
  );

  test("is not removed from a request without reasoning", async () => {
    understands = false;
    const response = await gateway.call("/v1/responses", buildBody([QUESTION, CALL], "pooled", false));
    expect(asRecord(await response.json()).error).toMatchObject({ code: "invalid_encrypted_content" });
    expect(received.length).toBe(1);
  });
});
