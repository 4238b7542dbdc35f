/** The gateway on PostgreSQL, as one node and as two nodes on one database. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import OpenAI from "openai";
import { listKeys, revokeKey } from "../../src/store/policy/keys.ts";
import { createTokenClient } from "../support/console-client.ts";
import { eventually } from "../support/eventually.ts";
import { type Postgres, startPostgres } from "../support/postgres.ts";
import { OTHER_KEY, type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import { startUsageReceiver } from "../support/usage-receiver.ts";

/** Long enough to install PostgreSQL. */
const FIRST_START_WITHIN_MS = 300_000;
setDefaultTimeout(60_000);

let postgres: Postgres;
let one: RunningGateway;
let two: RunningGateway;

beforeAll(async () => {
  postgres = await startPostgres();
  const environment = { MODEL_GATEWAY_MASTER_KEY: Buffer.alloc(32, 7).toString("base64") };
  one = await startTestGateway({ databaseUrl: postgres.url, environment });
  // The second node uses the accounts of the first; its own simulator stays unused.
  two = await startTestGateway({ databaseUrl: postgres.url, environment, file: "models: []" });
}, FIRST_START_WITHIN_MS);

afterAll(async () => {
  await two?.stop();
  await one?.stop();
  await postgres?.stop();
});

const createClient = ({ url }: RunningGateway) =>
  new OpenAI({ baseURL: `${url}/v1`, apiKey: TEST_KEY, maxRetries: 0 });
const chat = { model: "fast-chat", messages: [{ role: "user" as const, content: "Hello" }] };

test("both nodes serve the configuration of one", async () => {
  for (const node of [one, two]) {
    const client = createClient(node);
    expect((await client.models.list()).data.map(({ id }) => id)).toEqual(["fast-chat"]);
    expect((await client.chat.completions.create(chat)).model).toBe("fast-chat");
    const stream = client.responses.stream({ model: "fast-chat", input: "Hello" });
    expect((await stream.finalResponse()).status).toBe("completed");
  }
  expect(two.simulator.ledger.totals().requests).toBe(0);
});

test("a response created on one node is found on the other, with its key only", async () => {
  const made = await createClient(one).responses.create({ model: "fast-chat", input: "Remember" });
  await one.usageRows();
  const fetched = await createClient(two).responses.retrieve(made.id);
  expect(fetched.output_text).toBe(made.output_text);
  const next = await createClient(two).responses.create({
    model: "fast-chat",
    input: "What?",
    previous_response_id: made.id,
  });
  expect(next.previous_response_id).toBe(made.id);
  const stranger = await two.call(`/v1/responses/${made.id}`, undefined, {
    headers: { authorization: `Bearer ${OTHER_KEY}` },
  });
  expect(stranger.status).toBe(404);
});

test("usage of both nodes adds up", async () => {
  const total = async (node: RunningGateway) => {
    const report = (await (await node.call("/v1/usage")).json()) as {
      usage: { total: { requests: number } };
    };
    return report.usage.total.requests;
  };
  // Each node writes its own rows on request; the second response then includes both.
  await total(two);
  const before = await total(one);
  await Promise.all(
    [one, two, one, two, two].map((node) => createClient(node).chat.completions.create(chat)),
  );
  await total(two);
  expect(await total(one)).toBe(before + 5);
  expect(await total(two)).toBe(before + 5);
});

test("a model published on one node appears on the other", async () => {
  const isThere = async () => (await two.call("/v1/models/late-comer")).status === 200;
  expect(await isThere()).toBe(false);
  await one.apply(`
models: [{ id: late-comer, interfaces: [chat] }]
accounts: [{ name: sim, kind: openai, base_url: "\${SIMULATOR_URL}", private_network: true, models: { "*": "*" } }]
groups: [{ name: default, models: [fast-chat, late-comer], accounts: [sim] }]
`);
  await eventually(isThere);
});

test("a key revoked on one node is rejected by the other", async () => {
  const status = async (node: RunningGateway) =>
    (await node.call("/v1/models", undefined, { headers: { authorization: `Bearer ${OTHER_KEY}` } })).status;
  expect(await status(two)).toBe(200);
  const { db, clock } = one.installation;
  const key = (await listKeys(db)).find(({ name }) => name === "other");
  expect(await revokeKey(db, key?.id ?? "", clock.nowMs())).toBe(true);
  await eventually(() => status(two), { equals: 401 });
  await eventually(() => status(one), { equals: 401 });
});

test("requests of both nodes are exported once, and both nodes serve the same feed", async () => {
  const receiver = startUsageReceiver();
  try {
    await one.apply(
      JSON.stringify({
        usage_export: { webhooks: [{ name: "warehouse", url: receiver.url, private_network: true }] },
      }),
    );
    const ids = await Promise.all(
      Array.from({ length: 20 }, async (_, i) => {
        const response = await (i % 2 === 0 ? one : two).call("/v1/chat/completions", chat);
        await response.text();
        return response.headers.get("x-request-id") ?? "";
      }),
    );
    await Promise.all([one.usageRows(), two.usageRows()]);
    const received = () => receiver.accepted.flatMap((batch) => batch.ids);
    await eventually(() => ids.every((id) => received().includes(id)));
    expect(received().toSorted()).toEqual([...new Set(received())].toSorted());
    const pages: string[] = [];
    for (const node of [one, two]) {
      const program = await createTokenClient(node, "root@example.com", "export", "admin");
      pages.push(await (await program.send("admin.usage_export.records")).text());
    }
    expect(pages[0]).toBe(pages[1] ?? "");
    for (const id of ids) expect(pages[0]).toContain(id);
  } finally {
    await receiver.stop();
  }
});
