/** Captures of two nodes on one PostgreSQL database: orders are exact, and every node reads every capture. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { type ConsoleClient, signInAs } from "../support/console-client.ts";
import { eventually } from "../support/eventually.ts";
import { type Postgres, startPostgres } from "../support/postgres.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";

setDefaultTimeout(60_000);

let postgres: Postgres;
let one: RunningGateway;
let two: RunningGateway;
let admin: ConsoleClient;
let keyId: string;

beforeAll(async () => {
  postgres = await startPostgres();
  const environment = { MODEL_GATEWAY_MASTER_KEY: Buffer.alloc(32, 7).toString("base64") };
  one = await startTestGateway({ databaseUrl: postgres.url, environment });
  two = await startTestGateway({ databaseUrl: postgres.url, environment, file: "models: []" });
  admin = await signInAs(one, "root@example.com", "admin");
  const [row] = await one.installation.db.sql`
    SELECT id FROM api_key WHERE digest = ${one.installation.digest(TEST_KEY)}`;
  keyId = String(row?.id);
}, 300_000);

afterAll(async () => {
  await two?.stop();
  await one?.stop();
  await postgres?.stop();
});

/** The simulator of the first node serves both: the accounts are in the database. */
const send = async (gateway: RunningGateway): Promise<string> => {
  const messages = [{ role: "user", content: "From one of two nodes" }];
  const response = await gateway.call("/v1/chat/completions", { model: "fast-chat", messages, stream: true });
  await response.text();
  return response.headers.get("x-request-id") ?? "";
};

const root = (gateway: RunningGateway) => signInAs(gateway, "root@example.com", "admin");
const list = async (gateway: RunningGateway) =>
  (await (await root(gateway)).call("admin.captures.list")).data;

test("an order for the next requests is exact over all nodes", async () => {
  const order = { mode: null, next: { requests: 7, for_ms: 60_000 } };
  await admin.call("admin.keys.set_capture", { params: { id: keyId }, body: order });
  // Both nodes know the order before the requests come.
  const second = await root(two);
  await second.call("admin.keys.capture", { params: { id: keyId } });
  await eventually(async () => {
    await send(two);
    return (await list(two)).length > 0;
  });
  await Promise.all(Array.from({ length: 40 }, (_, i) => send(i % 2 === 0 ? one : two)));
  // Each list waits for the queue of its node.
  await list(one);
  expect(await list(two)).toHaveLength(7);
  const left = await admin.call("admin.keys.capture", { params: { id: keyId } });
  expect(left).toMatchObject({ remaining: 0, until_at: null });
});

test("a node reads the capture of another node", async () => {
  const body = { mode: "all", next: null };
  await admin.call("admin.keys.set_capture", { params: { id: keyId }, body });
  const id = await send(one);
  await list(one);
  const { document } = await (await root(two)).call("admin.captures.read", { params: { id }, body: {} });
  expect(document.request.body?.text).toContain("From one of two nodes");
  expect(document.response.body?.text).toEndWith("data: [DONE]\n\n");
});

test("the total of all captures is that of their rows", async () => {
  await Promise.all(Array.from({ length: 10 }, (_, i) => send(i % 2 === 0 ? one : two)));
  await list(one);
  await list(two);
  const [row] = await one.installation.db.sql`
    SELECT CAST(SUM(stored_bytes) AS BIGINT) AS bytes, COUNT(*) AS captures FROM capture`;
  expect(await admin.call("admin.captures.storage")).toMatchObject({
    bytes: Number(row?.bytes),
    captures: Number(row?.captures),
  });
});
