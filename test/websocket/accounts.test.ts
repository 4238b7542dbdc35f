/** Turns and their accounts: a failing account is invisible, also in the middle of a conversation. */

import { afterEach, expect, test } from "bun:test";
import { eventually } from "../support/eventually.ts";
import {
  type PooledGateway,
  type PoolSetup,
  PUBLIC_MODEL,
  seenBy,
  startPooledGateway,
} from "../support/pooled-gateway.ts";
import { openSocketClient, type SocketClient } from "../support/turn-client.ts";

const TURN = { model: PUBLIC_MODEL, store: false };

let gateway: PooledGateway | null = null;
let client: SocketClient | null = null;
afterEach(async () => {
  client?.close();
  await gateway?.stop();
});

async function start(setup: PoolSetup): Promise<{ gateway: PooledGateway; client: SocketClient }> {
  gateway = await startPooledGateway(setup);
  client = await openSocketClient(gateway.url);
  return { gateway, client };
}

test("a conversation fails over to another account without an error for the client", async () => {
  const { gateway, client } = await start({ accounts: [{ priority: 1 }, { priority: 2 }] });
  const first = await client.turn({ ...TURN, input: "My name is Ada." });
  gateway.upstreams[0]?.force("503");
  const second = await client.turn({ ...TURN, previous_response_id: first.responseId, input: "What is it?" });
  expect(second.events.map(({ type }) => type)).toEqual(
    expect.arrayContaining(["response.created", "response.completed"]),
  );
  expect(seenBy(gateway)).toEqual([2, 1]);
  const ledger = gateway.upstreams[1]?.ledger;
  const body = Buffer.from(ledger?.findBody(ledger.last()?.id ?? "") ?? []).toString();
  expect(JSON.parse(body).input).toMatchObject([
    { role: "user", content: "My name is Ada." },
    { role: "assistant" },
    { role: "user", content: "What is it?" },
  ]);
});

test("a turn that no account can serve gets the last error with retry-after", async () => {
  const { gateway, client } = await start({ accounts: [{}] });
  gateway.upstreams[0]?.force("429@retry=7");
  const { last } = await client.turn({ ...TURN, input: "Hi" });
  expect(last).toMatchObject({
    type: "error",
    status: 429,
    error: { code: "rate_limit_exceeded" },
    headers: { "retry-after": "7" },
  });
});

test("a turn waits in the queue for a busy account, and gets an error after the timeout", async () => {
  const setup = {
    accounts: [{ limits: { concurrency: 1 }, models: { [PUBLIC_MODEL]: "fault/stall@chunk6" } }],
    group: { queue: { max_waiting: 10, timeout: "100ms" } },
  };
  const { gateway, client } = await start(setup);
  client.create({ ...TURN, input: "Hi", stream_id: "a" });
  await eventually(() => seenBy(gateway)[0], { equals: 1 });
  client.create({ ...TURN, input: "Hi", stream_id: "b" });
  const events = await client.until("error");
  expect(events.at(-1)).toMatchObject({
    status: 429,
    stream_id: "b",
    headers: { "retry-after": expect.stringMatching(/^[1-9]/) },
  });
});

test("on_disconnect drain applies to a closed connection", async () => {
  const { gateway, client } = await start({
    accounts: [{ models: { [PUBLIC_MODEL]: "sim-fast@events=20,interval=10ms" } }],
    group: { on_disconnect: "drain" },
  });
  client.create({ ...TURN, input: "Hi" });
  await client.until("response.output_text.delta");
  client.close();
  await eventually(() => gateway.upstreams[0]?.ledger.last()?.finished, { equals: true });
  expect(gateway.upstreams[0]?.ledger.last()).toMatchObject({ finished: true, abortedByClient: false });
  const row = await eventually(async () => (await gateway.usageRows()).at(-1));
  expect(row).toMatchObject({ outcome: "client_gone", usage_source: "upstream" });
});
