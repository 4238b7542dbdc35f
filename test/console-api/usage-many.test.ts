/** Lists and files with 100,000 requests. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { text } from "../../src/store/engine/row.ts";
import { insertUsage, usageRow } from "../../src/store/usage/usage-row.test-support.ts";
import { type SignedInClient, signInAs } from "../support/console-client.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";

const MANY = 100_000;
const PART = 5_000;
const RARE = 13;

let gateway: RunningGateway;
let person: SignedInClient;

beforeAll(async () => {
  gateway = await startTestGateway();
  person = await signInAs(gateway, "dev@example.com");
  const { db, clock } = gateway.installation;
  const [key] = await db.sql`SELECT id, group_id FROM api_key WHERE user_id = ${person.user.id}`;
  if (key === undefined) throw new Error("There is no key.");
  const nowMs = clock.nowMs();
  for (let start = 0; start < MANY; start += PART) {
    const rows = Array.from({ length: PART }, (_, i) =>
      usageRow({
        atMs: nowMs - (start + i) * 20_000,
        keyId: text(key, "id"),
        groupId: text(key, "group_id"),
        userId: person.user.id,
        outcome: start + i === MANY - RARE ? "upstream_cut" : "completed",
      }),
    );
    await insertUsage(db, rows);
  }
}, 120_000);
afterAll(() => gateway.stop());

test("the list is read page by page", async () => {
  const seen = new Set<string>();
  let after: string | null = null;
  for (let page = 0; page < 5; page += 1) {
    const response: Awaited<ReturnType<typeof list>> = await list(after);
    for (const { id } of response.data) seen.add(id);
    after = response.next;
  }
  expect(seen.size).toBe(1_000);
  expect(after).not.toBeNull();
});

function list(after: string | null) {
  return person.call("usage.requests", { query: { limit: 200, ...(after === null ? {} : { after }) } });
}

test("a rare request is found anywhere in the list", async () => {
  let found = 0;
  let after: string | null = null;
  do {
    const query = { outcome: "upstream_cut", ...(after === null ? {} : { after }) };
    const response: Awaited<ReturnType<typeof list>> = await person.call("usage.requests", { query });
    found += response.data.length;
    after = response.next;
  } while (after !== null);
  expect(found).toBe(1);
});

test("the chart sums all requests", async () => {
  const { total } = await person.call("usage.chart", { query: { by: "key" } });
  expect(total.requests).toBe(MANY);
});

test("the file contains all requests and is streamed", async () => {
  const response = await person.send("usage.export");
  let lines = 0;
  let largest = 0;
  for await (const chunk of response.body ?? []) {
    largest = Math.max(largest, chunk.length);
    for (const byte of chunk) if (byte === 10) lines += 1;
  }
  expect(lines).toBe(MANY + 1);
  expect(largest).toBeLessThan(4 * 1024 * 1024);
});
