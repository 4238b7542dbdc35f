/** Responses that the gateway stores for accounts without the Responses API: after a restart, and on other nodes. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI from "openai";
import { removeExpiredResponses } from "../../src/gateway/stored-responses/remove-expired-responses.ts";
import { eventually } from "../support/eventually.ts";
import { type Postgres, startPostgres } from "../support/postgres.ts";
import { OTHER_KEY, type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import { openSocketClient } from "../support/turn-client.ts";

setDefaultTimeout(60_000);
/** Long enough to install PostgreSQL. */
const FIRST_START_WITHIN_MS = 300_000;

const FILE = `
models:
  - { id: fast, interfaces: [chat, responses] }
  - { id: caller, interfaces: [chat, responses] }
accounts:
  - { name: chat-only, kind: openai, base_url: "\${SIMULATOR_URL}", private_network: true, interfaces: [chat], models: { fast: sim-fast, caller: sim-tools } }
groups:
  - { name: default, interfaces: [chat, responses], models: [fast, caller], accounts: [chat-only] }
users:
  - { email: dev@example.com, role: user }
  - { email: other@example.com, role: user }
keys:
  - { name: test, user: dev@example.com, group: default, secret: ${TEST_KEY} }
  - { name: other, user: other@example.com, group: default, secret: ${OTHER_KEY} }
`;
const environment = { MODEL_GATEWAY_MASTER_KEY: Buffer.alloc(32, 7).toString("base64") };

const createClient = ({ url }: RunningGateway, apiKey = TEST_KEY) =>
  new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });

/** The messages of the last request that the upstream received. */
function lastMessages({ simulator: { ledger } }: RunningGateway) {
  return JSON.parse(Buffer.from(ledger.findBody(ledger.last()?.id ?? "") ?? []).toString()).messages;
}

async function isStored({ installation: { db } }: RunningGateway, id: string): Promise<boolean> {
  return (await db.sql`SELECT id FROM stored_response WHERE id = ${id}`).length > 0;
}

const refusal = (call: Promise<unknown>) =>
  call.then(
    () => "accepted",
    ({ status, code }: { status: number; code: string }) => `${status} ${code}`,
  );

describe("on SQLite", () => {
  let folder: string;
  let gateway: RunningGateway;
  const start = () =>
    startTestGateway({ file: FILE, environment, databaseUrl: `sqlite:${join(folder, "gateway.db")}` });

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "stored-responses-"));
    gateway = await start();
  });
  afterAll(async () => {
    await gateway.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  test("a conversation continues after a restart, with its image", async () => {
    const image = `data:image/png;base64,${"iVBORw0KGgo".repeat(40_000)}`;
    const first = await createClient(gateway).responses.create({
      model: "fast",
      instructions: "Be brief.",
      input: [
        { role: "developer", content: "Speak French." },
        {
          role: "user",
          content: [
            { type: "input_text", text: "My name is Ada." },
            { type: "input_image", image_url: image, detail: "low" },
          ],
        },
      ],
    });
    const second = await createClient(gateway).responses.create({
      model: "fast",
      input: "I like tea.",
      previous_response_id: first.id,
      stream: true,
    });
    let secondId = "";
    for await (const event of second) if (event.type === "response.completed") secondId = event.response.id;
    await gateway.stop();
    gateway = await start();
    await createClient(gateway).responses.create({
      model: "fast",
      input: "What do I like?",
      previous_response_id: secondId,
    });
    // The instructions of a request do not apply to those that continue it; its system messages do.
    expect(lastMessages(gateway)).toMatchObject([
      { role: "system", content: "Speak French." },
      { role: "user", content: [{ text: "My name is Ada." }, { image_url: { url: image } }] },
      { role: "assistant" },
      { role: "user", content: "I like tea." },
      { role: "assistant" },
      { role: "user", content: "What do I like?" },
    ]);
  });

  test("a tool call can be answered after a restart", async () => {
    const tools = [
      {
        type: "function" as const,
        strict: false,
        name: "get_weather",
        parameters: { type: "object", properties: { city: { type: "string" } } },
      },
    ];
    const first = await createClient(gateway).responses.create({
      model: "caller",
      input: "Weather in Paris?",
      tools,
    });
    const call = first.output.find((item) => item.type === "function_call");
    await gateway.stop();
    gateway = await start();
    await createClient(gateway).responses.create({
      model: "caller",
      tools,
      previous_response_id: first.id,
      input: [{ type: "function_call_output", call_id: call?.call_id ?? "", output: "sunny" }],
    });
    expect(lastMessages(gateway)).toMatchObject([
      { role: "user" },
      { role: "assistant", tool_calls: [{ id: call?.call_id }] },
      { role: "tool", tool_call_id: call?.call_id, content: "sunny" },
    ]);
  });

  test("a response can be retrieved at once and after a restart, as the client received it", async () => {
    const whole = await createClient(gateway).responses.create({
      model: "fast",
      input: "Hello",
      metadata: { topic: "greeting" },
    });
    const streamed = await createClient(gateway)
      .responses.stream({ model: "fast", input: "Hello" })
      .finalResponse();
    const retrieve = async (id: string) => (await gateway.call(`/v1/responses/${id}`)).json();
    const before = [await retrieve(whole.id), await retrieve(streamed.id)];
    expect(before).toMatchObject([
      {
        id: whole.id,
        status: "completed",
        model: "fast",
        output: whole.output,
        metadata: { topic: "greeting" },
      },
      { id: streamed.id, status: "completed", usage: streamed.usage },
    ]);
    await gateway.stop();
    gateway = await start();
    expect([await retrieve(whole.id), await retrieve(streamed.id)]).toEqual(before);
  });

  test.each([
    ["short", ""],
    ["long, in a thread", " word".repeat(40_000)],
  ])("input items are listed in pages, in both orders: %s", async (_size, tail) => {
    const { id } = await createClient(gateway).responses.create({
      model: "fast",
      input: ["one", "two", "three"].map((word) => ({ role: "user" as const, content: word + tail })),
    });
    const list = async (query: string) =>
      (await gateway.call(`/v1/responses/${id}/input_items${query}`)).json() as Promise<{
        data: { id: string; type: string; content: { type: string; text: string }[] }[];
        has_more: boolean;
        last_id: string;
      }>;
    const texts = ({ data }: Awaited<ReturnType<typeof list>>) =>
      data.map((item) => item.content[0]?.text.replace(tail, ""));
    expect(texts(await list(""))).toEqual(["three", "two", "one"]);
    const page = await list("?order=asc&limit=2");
    expect(texts(page)).toEqual(["one", "two"]);
    expect(page).toMatchObject({
      object: "list",
      has_more: true,
      data: [{ type: "message", status: "completed" }, {}],
    });
    const rest = await list(`?order=asc&limit=2&after=${page.last_id}`);
    expect([texts(rest), rest.has_more]).toEqual([["three"], false]);
    expect((await gateway.call(`/v1/responses/${id}/input_items?limit=0`)).status).toBe(400);
    const items = [];
    for await (const item of createClient(gateway).responses.inputItems.list(id, { limit: 2 }))
      items.push(item);
    expect(items).toHaveLength(3);
  });

  test("a deleted response is gone, and a response that continues it still works", async () => {
    const client = createClient(gateway);
    const first = await client.responses.create({ model: "fast", input: "My name is Ada." });
    const second = await client.responses.create({
      model: "fast",
      input: "Hello",
      previous_response_id: first.id,
    });
    const deleted = await gateway.call(`/v1/responses/${first.id}`, undefined, { method: "DELETE" });
    expect([deleted.status, await deleted.json()]).toEqual([
      200,
      { id: first.id, object: "response", deleted: true },
    ]);
    const create = (previous_response_id: string) =>
      client.responses.create({ model: "fast", input: "Who am I?", previous_response_id });
    expect(await refusal(client.responses.retrieve(first.id))).toBe("404 response_not_found");
    expect(await refusal(client.responses.delete(first.id))).toBe("404 response_not_found");
    expect(await refusal(create(first.id))).toBe("400 previous_response_not_found");
    await create(second.id);
    expect(lastMessages(gateway)).toMatchObject([{ content: "My name is Ada." }, {}, {}, {}, {}]);
  });

  test("another key can neither read, continue nor delete it", async () => {
    const { id } = await createClient(gateway).responses.create({ model: "fast", input: "Hello" });
    const other = createClient(gateway, OTHER_KEY).responses;
    expect(await refusal(other.retrieve(id))).toBe("404 response_not_found");
    expect(await refusal(other.delete(id))).toBe("404 response_not_found");
    expect(
      (
        await gateway.call(`/v1/responses/${id}/input_items`, undefined, {
          headers: { authorization: `Bearer ${OTHER_KEY}` },
        })
      ).status,
    ).toBe(404);
    expect(await refusal(other.create({ model: "fast", input: "?", previous_response_id: id }))).toBe(
      "400 previous_response_not_found",
    );
    expect((await createClient(gateway).responses.retrieve(id)).id).toBe(id);
  });

  test("`store: false` stores nothing", async () => {
    const { id } = await createClient(gateway).responses.create({
      model: "fast",
      input: "Hello",
      store: false,
    });
    const later = await createClient(gateway).responses.create({ model: "fast", input: "Hello" });
    await eventually(() => isStored(gateway, later.id));
    expect(await isStored(gateway, id)).toBe(false);
    expect(await refusal(createClient(gateway).responses.retrieve(id))).toBe("404 response_not_found");
  });

  test("a response in progress or its events cannot be retrieved: it has ended", async () => {
    const { id } = await createClient(gateway).responses.create({ model: "fast", input: "Hello" });
    expect(await refusal(createClient(gateway).responses.cancel(id))).toBe("400 invalid_value");
    expect((await gateway.call(`/v1/responses/${id}?stream=true`)).status).toBe(400);
  });

  test("a response over WebSocket is stored, and continues on another connection after a restart", async () => {
    const socket = await openSocketClient(gateway.url);
    const one = await socket.turn({ model: "fast", input: "My name is Ada." });
    const two = await socket.turn({ model: "fast", input: "Hello", previous_response_id: one.responseId });
    expect(two.last).toMatchObject({ response: { previous_response_id: one.responseId } });
    socket.close();
    await gateway.stop();
    gateway = await start();
    const other = await openSocketClient(gateway.url);
    const three = await other.turn({
      model: "fast",
      input: "Who am I?",
      previous_response_id: two.responseId,
    });
    expect(three.last.type).toBe("response.completed");
    expect(lastMessages(gateway)).toMatchObject([
      { content: "My name is Ada." },
      {},
      {},
      {},
      { content: "Who am I?" },
    ]);
    other.close();
  });

  test("nothing is readable in the database", async () => {
    const secret = "canary-7d1f";
    const { id } = await createClient(gateway).responses.create({
      model: "fast",
      input: `The code is ${secret}.`,
    });
    await eventually(() => isStored(gateway, id));
    const rows = await gateway.installation.db.sql`SELECT * FROM stored_response WHERE id = ${id}`;
    expect(JSON.stringify(rows)).not.toContain(secret);
    expect(JSON.stringify(rows)).toContain("v1:content:");
  });

  test("with `retention.responses: none` nothing is written, and the next turn still works", async () => {
    await gateway.apply("retention: { responses: none }");
    await gateway.stop();
    gateway = await start();
    const client = createClient(gateway);
    const first = await client.responses.create({ model: "fast", input: "Hello" });
    await client.responses.create({ model: "fast", input: "Hello", previous_response_id: first.id });
    const { db, clock } = gateway.installation;
    await removeExpiredResponses({ db, clock, log: { info() {}, warn() {} }, bytesMax: 1e9 });
    expect(await db.sql`SELECT id FROM stored_response`).toHaveLength(0);
    await gateway.apply("retention: { responses: 30d }");
  });

  test("the responses of a revoked key are removed", async () => {
    await gateway.stop();
    gateway = await start();
    const { db, clock } = gateway.installation;
    const { id } = await createClient(gateway, OTHER_KEY).responses.create({ model: "fast", input: "Hello" });
    const mine = await createClient(gateway).responses.create({ model: "fast", input: "Hello" });
    await eventually(() => isStored(gateway, mine.id));
    await db.sql`UPDATE api_key SET status = 'revoked', revoked_at_ms = ${clock.nowMs()} WHERE name = 'other'`;
    await removeExpiredResponses({ db, clock, log: { info() {}, warn() {} }, bytesMax: 1e9 });
    expect([await isStored(gateway, id), await isStored(gateway, mine.id)]).toEqual([false, true]);
  });
});

describe("two nodes on PostgreSQL", () => {
  let postgres: Postgres;
  let one: RunningGateway;
  let two: RunningGateway;

  beforeAll(async () => {
    postgres = await startPostgres();
    one = await startTestGateway({ databaseUrl: postgres.url, environment, file: FILE });
    // The second node uses the accounts of the first; its own simulator stays unused.
    two = await startTestGateway({ databaseUrl: postgres.url, environment, file: "models: []" });
  }, FIRST_START_WITHIN_MS);
  afterAll(async () => {
    await two?.stop();
    await one?.stop();
    await postgres?.stop();
  });

  test("a conversation continues on the other node at once", async () => {
    const texts = ["one", "two", "three", "four", "five"];
    let previous: string | null = null;
    for (const [at, input] of texts.entries()) {
      const client = createClient(at % 2 === 0 ? one : two);
      const made: OpenAI.Responses.Response = await client.responses.create({
        model: "fast",
        input,
        previous_response_id: previous,
      });
      previous = made.id;
    }
    const asked = lastMessages(one).filter(({ role }: { role: string }) => role === "user");
    expect(asked.map(({ content }: { content: string }) => content)).toEqual(texts);
  });

  test("a response can be retrieved and deleted on the other node, and is deleted on both", async () => {
    const { id, output_text } = await createClient(one).responses.create({ model: "fast", input: "Hello" });
    expect((await createClient(two).responses.retrieve(id)).output_text).toBe(output_text);
    await createClient(two).responses.delete(id);
    for (const node of [one, two]) {
      expect(await refusal(createClient(node).responses.retrieve(id))).toBe("404 response_not_found");
      const next = createClient(node).responses.create({
        model: "fast",
        input: "?",
        previous_response_id: id,
      });
      expect(await refusal(next)).toBe("400 previous_response_not_found");
    }
  });
});
