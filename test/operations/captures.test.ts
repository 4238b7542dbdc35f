/** Captured requests: what is stored, what never is, who reads it, and that no request waits for it. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { CaptureDocument } from "../../src/capture/document.ts";
import { limits } from "../../src/config/limits/product-limits.ts";
import { type ConsoleClient, createTokenClient, signInAs } from "../support/console-client.ts";
import { eventually } from "../support/eventually.ts";
import {
  OTHER_KEY,
  type RunningGateway,
  startTestGateway,
  TEST_KEY,
  UPSTREAM_CREDENTIAL,
} from "../support/running-gateway.ts";
import { openSocketClient } from "../support/turn-client.ts";

setDefaultTimeout(60_000);

const INTERFACES = "[chat, responses, messages, images]";
const GROUP = (capture: string) =>
  `groups: [{ name: default, interfaces: ${INTERFACES}, models: [fast, broken, failing, slow], accounts: [sim, spare], capture: ${capture} }]`;
const FILE = `
models:
  - { id: fast, interfaces: ${INTERFACES} }
  - { id: broken, interfaces: ${INTERFACES} }
  - { id: failing, interfaces: ${INTERFACES} }
  - { id: slow, interfaces: ${INTERFACES} }
accounts:
  - name: sim
    kind: openai
    base_url: \${SIMULATOR_URL}
    credential: ${UPSTREAM_CREDENTIAL}
    private_network: true
    interfaces: [chat, responses, images]
    models: { fast: sim-fast, broken: fault/500, failing: fault/500, slow: "sim-fast@events=5000,interval=20ms" }
  - name: spare
    kind: openai
    base_url: \${SIMULATOR_URL}
    credential: spare-credential-canary-77
    private_network: true
    priority: 9
    interfaces: [chat, responses]
    models: { broken: sim-fast }
${GROUP("off")}
users:
  - { email: dev@example.com, role: user }
  - { email: other@example.com, role: user }
keys:
  - { name: test, user: dev@example.com, group: default, secret: ${TEST_KEY} }
  - { name: other, user: other@example.com, group: default, secret: ${OTHER_KEY} }
`;
const PROMPT = "The captured prompt of a test";
const MESSAGES = [{ role: "user", content: PROMPT }];

let gateway: RunningGateway;
let admin: ConsoleClient;

beforeAll(async () => {
  gateway = await startTestGateway({ file: FILE, capture: { body_kib: 8, redact: ["email"] } });
  admin = await signInAs(gateway, "root@example.com", "admin");
});
afterAll(() => gateway.stop());

const chat = (body: object = {}, init: RequestInit = {}) =>
  gateway.call("/v1/chat/completions", { model: "fast", messages: MESSAGES, ...body }, init);

async function setGroup(capture: string): Promise<void> {
  await gateway.apply(GROUP(capture));
  const { data } = await admin.call("keys.list", { query: { user: (await findOwner(TEST_KEY)).userId } });
  await eventually(async () => {
    const { group_mode: mode } = await admin.call("admin.keys.capture", {
      params: { id: data[0]?.id ?? "" },
    });
    return mode === capture;
  });
}

async function findOwner(secret: string): Promise<{ id: string; userId: string }> {
  const [row] = await gateway.installation.db.sql`
    SELECT id, user_id FROM api_key WHERE digest = ${gateway.installation.digest(secret)}`;
  return { id: String(row?.id), userId: String(row?.user_id) };
}

async function send(body: object = {}, init: RequestInit = {}): Promise<{ id: string; text: string }> {
  const response = await chat(body, init);
  const text = await response.text();
  return { id: response.headers.get("x-request-id") ?? "", text };
}

async function read(id: string): Promise<CaptureDocument> {
  return (await admin.call("admin.captures.read", { params: { id }, body: {} })).document;
}

const list = async () => (await admin.call("admin.captures.list")).data;

describe("a group without captures", () => {
  test("stores nothing", async () => {
    await send();
    expect(await list()).toEqual([]);
    expect(await admin.call("admin.captures.storage")).toMatchObject({ captures: 0, bytes: 0 });
  });
});

describe("a group that captures all requests", () => {
  beforeAll(() => setGroup("all"));
  afterAll(() => setGroup("off"));

  test("has the request as it came, as it went upstream, and the response", async () => {
    const { id, text } = await send({ temperature: 0.5 }, { headers: { "user-agent": "client/2.0" } });
    const { request, attempts, response: received } = await read(id);
    expect(request).toMatchObject({ method: "POST", path: "/v1/chat/completions", transport: "http" });
    expect(JSON.parse(request.body?.text ?? "")).toEqual({
      model: "fast",
      messages: MESSAGES,
      temperature: 0.5,
    });
    expect(request.headers).toContainEqual(["user-agent", "client/2.0"]);
    expect(request.headers).toContainEqual(["authorization", "[redacted credential]"]);
    expect(attempts).toHaveLength(1);
    expect(attempts[0]).toMatchObject({
      account: "sim",
      upstream_model: "sim-fast",
      method: "POST",
      url: `${gateway.simulator.url}/chat/completions`,
      status: 200,
      failure: null,
    });
    expect(JSON.parse(attempts[0]?.body?.text ?? "").model).toBe("sim-fast");
    expect(JSON.parse(attempts[0]?.response?.text ?? "").choices).toHaveLength(1);
    expect(received).toMatchObject({ status: 200, stream: false, is_complete: true, body: { text } });
  });

  test("has every event of a stream, up to the last", async () => {
    const { id, text } = await send({ stream: true });
    const { response: received } = await read(id);
    expect(received).toMatchObject({ stream: true, is_complete: true });
    expect(received.body?.text).toBe(text);
    expect(text).toEndWith("data: [DONE]\n\n");
  });

  test("has the part of a stream that a client received before it disconnected", async () => {
    const leave = new AbortController();
    const response = await chat({ model: "slow", stream: true }, { signal: leave.signal });
    const reader = response.body?.getReader();
    await reader?.read();
    leave.abort();
    await reader?.read().catch(() => {});
    const id = response.headers.get("x-request-id") ?? "";
    await eventually(async () => (await list()).some(({ request_id: captured }) => captured === id));
    const { response: received } = await read(id);
    expect(received).toMatchObject({ stream: true, is_complete: false });
    expect(received.body?.text).toStartWith("data: ");
  });

  test("has each attempt of a request that failed over", async () => {
    const { id } = await send({ model: "broken" });
    const { attempts, response: received } = await read(id);
    expect(attempts.map(({ account, status }) => [account, status])).toEqual([
      ["sim", 500],
      ["spare", 200],
    ]);
    expect(attempts[0]?.failure).toStartWith("server");
    expect(attempts[0]?.response?.text).toContain("error");
    expect(attempts[1]?.failure).toBeNull();
    expect(received.status).toBe(200);
  });

  test("has a translated request in both dialects", async () => {
    const response = await gateway.call(
      "/v1/messages",
      { model: "fast", max_tokens: 30, messages: MESSAGES },
      { headers: { "anthropic-version": "2023-06-01" } },
    );
    await response.text();
    const { request, attempts, response: received } = await read(response.headers.get("x-request-id") ?? "");
    expect(request.path).toBe("/v1/messages");
    expect(attempts[0]?.url).not.toEndWith("/messages");
    expect(attempts[0]?.body?.text).not.toBe(request.body?.text ?? "");
    expect(JSON.parse(received.body?.text ?? "").type).toBe("message");
  });

  test("has a request that was rejected, with the error", async () => {
    const { id, text } = await send({ model: "unheard-of" });
    const { attempts, response: received } = await read(id);
    expect(attempts).toEqual([]);
    expect(received.status).toBe(404);
    expect(JSON.parse(received.body?.text ?? "")).toEqual(JSON.parse(text));
  });

  test("has the path with the model as the client wrote it", async () => {
    const response = await gateway.call("/v1beta/models/a$&b$'c:generateContent", { contents: [] });
    await response.text();
    const { request } = await read(response.headers.get("x-request-id") ?? "");
    expect(request.path).toBe("/v1beta/models/a$&b$'c:generateContent");
  });

  test("has a body that is not JSON, as it came", async () => {
    const response = await gateway.call("/v1/chat/completions", '{"model": "fast", oops');
    await response.text();
    const { request, response: received } = await read(response.headers.get("x-request-id") ?? "");
    expect(request.body?.text).toBe('{"model": "fast", oops');
    expect(received.status).toBe(400);
  });

  test("has one capture of a request that was repeated under its Idempotency-Key", async () => {
    const before = (await list()).length;
    const headers = { "idempotency-key": crypto.randomUUID() };
    const first = await send({}, { headers });
    const second = await send({}, { headers });
    expect(second).toEqual(first);
    expect(await list()).toHaveLength(before + 1);
  });

  test("keeps the beginning and the end of a long body, and the size of the omitted part", async () => {
    const content = `begin ${"word ".repeat(10_000)} end`;
    const { id } = await send({ messages: [{ role: "user", content }] });
    const { request } = await read(id);
    expect(request.body?.bytes).toBeGreaterThan(50_000);
    expect(request.body?.omitted_bytes).toBe((request.body?.bytes ?? 0) - 8_192);
    expect(request.body?.text).toContain("begin word");
    expect(request.body?.text).toContain("word  end");
    expect(request.body?.text).toContain(`[${request.body?.omitted_bytes} bytes omitted]`);
  });

  test("contains no key, no credential, no media, and nothing that the operator chose to remove", async () => {
    const image = Buffer.alloc(200, 3).toString("base64");
    const { id } = await send({
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: `my key is ${TEST_KEY} and ada@example.com is my address` },
            { type: "image_url", image_url: { url: `data:image/png;base64,${image}` } },
          ],
        },
      ],
    });
    const text = JSON.stringify(await read(id));
    expect(text).toContain("my key is [redacted key] and [redacted email] is my address");
    expect(text).toContain("[redacted image/png, 200 bytes");
    for (const secret of [TEST_KEY, UPSTREAM_CREDENTIAL, image, "ada@example.com"])
      expect(text).not.toContain(secret);
  });

  test("is encrypted in the database", async () => {
    const { id } = await send();
    await list();
    const [row] = await gateway.installation.db.sql`SELECT * FROM capture WHERE request_id = ${id}`;
    expect(Buffer.from(String(row?.content), "base64").toString("latin1")).not.toContain("prompt");
    expect(JSON.stringify(row)).not.toContain(PROMPT);
    expect(String(row?.sealed_key)).toStartWith("v1:");
  });

  test("is shown on the page of the request, to administrators only", async () => {
    const { id } = await send();
    expect((await admin.call("usage.request", { params: { id } })).is_captured).toBeTrue();
    const owner = await signInAs(gateway, "dev@example.com");
    expect(await owner.call("usage.request", { params: { id } })).not.toHaveProperty("is_captured");
  });
});

describe("reading a capture", () => {
  let id: string;
  beforeAll(async () => {
    await setGroup("all");
    ({ id } = await send());
    await setGroup("off");
  });

  test("is recorded in the audit log with the reason", async () => {
    await admin.call("admin.captures.read", { params: { id }, body: { reason: "ticket 7" } });
    const { data } = await admin.call("admin.audit.list", { query: { action: "capture.read", limit: 1 } });
    expect(data[0]).toMatchObject({
      actor: "root@example.com",
      target: `capture ${id}`,
      changes: [{ field: "reason", from: null, to: "ticket 7" }],
    });
  });

  test("is refused to its owner, and to a token that may only read", async () => {
    const owner = await signInAs(gateway, "dev@example.com");
    const token = await createTokenClient(gateway, "root@example.com", "read", "admin");
    for (const client of [owner, token]) {
      const rejection = await client.callRejected("admin.captures.read", { params: { id }, body: {} });
      expect(rejection.code).toBe("forbidden");
    }
  });

  test("fails after it was deleted, which is recorded too", async () => {
    expect(await admin.call("admin.captures.delete", { params: { id } })).toEqual({ deleted: 1 });
    const rejection = await admin.callRejected("admin.captures.read", { params: { id }, body: {} });
    expect(rejection.code).toBe("not_found");
    const { data } = await admin.call("admin.audit.list", { query: { action: "capture.delete", limit: 1 } });
    expect(data[0]?.target).toBe(`capture ${id}`);
  });

  test("of all captures: deleting them frees their space", async () => {
    await admin.call("admin.captures.clear");
    expect(await list()).toEqual([]);
    expect(await admin.call("admin.captures.storage")).toMatchObject({ captures: 0, bytes: 0 });
  });
});

describe("a group that captures errors", () => {
  beforeAll(() => setGroup("errors"));
  afterAll(() => setGroup("off"));

  test("stores failed and rejected requests, and no others", async () => {
    await send();
    await send({ stream: true });
    const failed = await send({ model: "failing" });
    const rejected = await send({ model: "unheard-of" });
    const stored = (await list()).map(({ request_id: id }) => id);
    expect(stored.toSorted()).toEqual([failed.id, rejected.id].toSorted());
    await admin.call("admin.captures.clear");
  });
});

describe("an order for a key", () => {
  const order = async (body: object, secret = TEST_KEY) =>
    admin.call("admin.keys.set_capture", { params: { id: (await findOwner(secret)).id }, body });

  test("captures exactly the next requests of this key, also if they come at once", async () => {
    await order({ mode: null, next: { requests: 3, for_ms: 60_000 } });
    await Promise.all([
      ...Array.from({ length: 12 }, () => send({ stream: true })),
      ...Array.from({ length: 4 }, () => send({}, { headers: { authorization: `Bearer ${OTHER_KEY}` } })),
    ]);
    await send();
    const { id } = await findOwner(TEST_KEY);
    expect((await list()).map(({ key }) => key.id)).toEqual([id, id, id]);
    expect(await admin.call("admin.keys.capture", { params: { id } })).toMatchObject({ remaining: 0 });
    await admin.call("admin.captures.clear", { query: { key: id } });
  });

  test("is recorded in the audit log", async () => {
    await order({ mode: "errors", next: { requests: 2, for_ms: 60_000 } });
    const { data } = await admin.call("admin.audit.list", { query: { action: "key.capture", limit: 1 } });
    expect(data[0]).toMatchObject({ actor: "root@example.com", target: expect.stringContaining("test") });
    expect(data[0]?.changes[0]).toEqual({ field: "capture", from: "as its group", to: "errors" });
    expect(data[0]?.changes[1]?.to).toStartWith("2 requests until ");
    await order({ mode: null, next: null });
  });

  test("continues if only the mode is changed", async () => {
    const { id } = await findOwner(TEST_KEY);
    await order({ mode: null, next: { requests: 3, for_ms: 60_000 } });
    await send();
    await list();
    expect(await order({ mode: "off" })).toMatchObject({ mode: "off", remaining: 2 });
    await Promise.all([send(), send(), send()]);
    expect(await list()).toHaveLength(3);
    expect(await order({ mode: null, next: null })).toMatchObject({ mode: null, until_at: null });
    await admin.call("admin.captures.clear", { query: { key: id } });
  });

  test("ends when its time is over", async () => {
    await order({ mode: null, next: { requests: 3, for_ms: 1_000 } });
    const { id } = await findOwner(TEST_KEY);
    await eventually(async () => {
      const { until_at: until } = await admin.call("admin.keys.capture", { params: { id } });
      return until === null;
    });
    await send();
    expect(await list()).toEqual([]);
  });

  test("that turns the key off overrides the group", async () => {
    await setGroup("all");
    await order({ mode: "off", next: null });
    await send();
    expect(await list()).toEqual([]);
    await order({ mode: null, next: null });
    await setGroup("off");
  });

  test("is refused to users, and for a revoked key", async () => {
    const owner = await signInAs(gateway, "dev@example.com");
    const { id } = await findOwner(TEST_KEY);
    const body = { mode: "all", next: null };
    const rejection = await owner.callRejected("admin.keys.set_capture", { params: { id }, body });
    expect(rejection.code).toBe("forbidden");
    const { key } = await owner.call("keys.create", { body: { name: "gone", group: "default" } });
    await owner.call("keys.revoke", { params: { id: key.id } });
    const gone = await admin.callRejected("admin.keys.set_capture", { params: { id: key.id }, body });
    expect(gone.code).toBe("conflict");
  });
});

test("a turn on a WebSocket is captured like a request", async () => {
  await setGroup("all");
  const client = await openSocketClient(gateway.url);
  const { last } = await client.turn({ model: "fast", input: PROMPT });
  expect(last.type).toBe("response.completed");
  const captured = await eventually(async () => (await list())[0]);
  const { request, response: received } = await read(captured.request_id);
  expect(request).toMatchObject({ transport: "websocket", path: "/v1/responses" });
  expect(request.body?.text).toContain(PROMPT);
  expect(received.body?.text).toContain("response.completed");
  client.close();
  await setGroup("off");
});

describe("with little room", () => {
  const start = (options: Parameters<typeof startTestGateway>[0]) =>
    startTestGateway({ file: FILE.replace("capture: off", "capture: all"), ...options });

  async function readDropped(root: ConsoleClient): Promise<string[]> {
    const text = await (await root.fetch("/metrics")).text();
    return text.split("\n").filter((line) => line.startsWith("gateway_captures_dropped_total{"));
  }

  test("a capture without memory is dropped and counted, and its request is served", async () => {
    const small = await start({ limits: { capture: { ...limits.capture, memoryBytesMax: 1_000 } } });
    try {
      const root = await signInAs(small, "root@example.com", "admin");
      for (const stream of [false, true]) {
        const response = await small.call("/v1/chat/completions", {
          model: "fast",
          messages: MESSAGES,
          stream,
        });
        expect(response.status).toBe(200);
        expect(await response.text()).not.toBe("");
      }
      expect((await root.call("admin.captures.list")).data).toEqual([]);
      expect(await readDropped(root)).toContain('gateway_captures_dropped_total{reason="memory"} 2');
    } finally {
      await small.stop();
    }
  });

  test("the memory of a capture is free again, however its request ended", async () => {
    const small = await start({});
    try {
      const root = await signInAs(small, "root@example.com", "admin");
      const ask = (body: object, init: RequestInit = {}) =>
        small.call("/v1/chat/completions", { model: "fast", messages: MESSAGES, ...body }, init);
      const readHeld = async () => {
        const lines = (await (await root.fetch("/metrics")).text()).split("\n");
        return Number(lines.find((line) => line.startsWith("gateway_capture_memory_bytes "))?.split(" ")[1]);
      };
      const headers = { "idempotency-key": crypto.randomUUID() };
      const leave = new AbortController();
      const left = await ask({ model: "slow", stream: true }, { signal: leave.signal });
      await left.body?.getReader().read();
      expect(await readHeld()).toBeGreaterThan(0);
      leave.abort();
      const responses = [
        await ask({}, { headers }),
        await ask({}, { headers }),
        await ask({ stream: true }),
        await ask({ model: "broken" }),
        await ask({ model: "failing", stream: true }),
        await ask({ model: "unheard-of" }),
        await small.call("/v1/chat/completions", "{"),
      ];
      for (const response of responses) await response.text();
      // All but the repeat.
      await eventually(async () => (await root.call("admin.captures.storage")).captures === responses.length);
      await eventually(() => readHeld(), { equals: 0 });
    } finally {
      await small.stop();
    }
  });

  test("a full queue drops captures and counts them, and every request is served", async () => {
    const small = await start({ limits: { capture: { ...limits.capture, queueMax: 1 } } });
    try {
      const root = await signInAs(small, "root@example.com", "admin");
      const responses = await Promise.all(
        Array.from({ length: 30 }, () =>
          small.call("/v1/chat/completions", { model: "fast", messages: MESSAGES }),
        ),
      );
      expect(responses.map(({ status }) => status)).toEqual(Array(30).fill(200));
      const stored = (await root.call("admin.captures.list")).data.length;
      const [line = ""] = (await readDropped(root)).filter((one) => one.includes("queue_full"));
      expect(Number(line.split(" ").at(-1)) + stored).toBe(30);
      expect(stored).toBeGreaterThan(0);
    } finally {
      await small.stop();
    }
  });

  test("captures are deleted after their retention", async () => {
    const small = await start({ limits: { capture: { ...limits.capture, sweepMs: 50 } } });
    try {
      const root = await signInAs(small, "root@example.com", "admin");
      await small.call("/v1/chat/completions", { model: "fast", messages: MESSAGES });
      expect((await root.call("admin.captures.list")).data).toHaveLength(1);
      await small.installation.db.sql`UPDATE capture SET at_ms = at_ms - ${limits.capture.keptMs + 60_000}`;
      await eventually(async () => (await root.call("admin.captures.list")).data.length, { equals: 0 });
      expect(await root.call("admin.captures.storage")).toMatchObject({ captures: 0, bytes: 0 });
    } finally {
      await small.stop();
    }
  });
});
