/** A pipelined request does not change the request before it: neither its end nor its cost. */

import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { startGatewayWithResponses } from "../support/canned-upstream.ts";
import { eventually } from "../support/eventually.ts";
import { startPaidGateway } from "../support/paid-gateway.ts";
import { chatBody, HOST, KEY, message, post, TYPE } from "./messages.ts";
import { openRawClient, type RawClient } from "./raw-client.ts";

setDefaultTimeout(60_000);

const clients: RawClient[] = [];
const gateways: { stop(): Promise<unknown> }[] = [];

afterEach(async () => {
  for (const client of clients.splice(0)) client.close("fin");
  await Promise.all(gateways.splice(0).map((gateway) => gateway.stop()));
});

async function open(gateway: { url: string; stop(): Promise<unknown> }): Promise<RawClient> {
  if (!gateways.includes(gateway)) gateways.push(gateway);
  const client = await openRawClient(gateway.url);
  clients.push(client);
  return client;
}

const words = (count: number) => "The quick brown fox jumps over the lazy dog. ".repeat(count);

test.each(["fin", "reset"] as const)(
  "a disconnect with a long request pipelined behind a slow one releases the hold (%s)",
  async (how) => {
    const gateway = await startPaidGateway({
      balance: "1.00",
      models: { paid: "sim-fast@first=60s" },
      group: { on_disconnect: "cancel" },
    });
    const client = await open(gateway);
    await client.send(post(chatBody({ model: "paid" })));
    await eventually(() => gateway.simulator.ledger.last());
    expect((await gateway.records.wallet()).heldNano).toBeGreaterThan(0n);
    const content = words(5_000);
    await client.send(post(chatBody({ model: "paid", messages: [{ role: "user", content }] })));
    client.close(how);
    await eventually(async () => (await gateway.records.wallet()).heldNano, { equals: 0n });
    const rows = await eventually(async () => {
      const all = await gateway.usageRows();
      return all.length > 0 ? all : null;
    });
    expect(rows).toMatchObject([{ outcome: "client_gone", status: 499 }]);
    await gateway.records.expectReconciled();
  },
);

/** The cost of a background response without upstream usage, with another request pipelined or sent later. */
async function costInBackground(isTogether: boolean) {
  let status = "in_progress";
  const chat = {
    id: "c",
    object: "chat.completion",
    model: "up",
    choices: [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }],
    usage: { prompt_tokens: 5_000, completion_tokens: 1, total_tokens: 5_001 },
  };
  const gateway = await startGatewayWithResponses(({ url }) =>
    Response.json(
      url.endsWith("/chat/completions")
        ? chat
        : {
            id: "resp_1",
            object: "response",
            status,
            model: "up",
            background: true,
            output: [],
            usage: null,
          },
    ),
  );
  const client = await open(gateway);
  const asked = JSON.stringify({ model: "paid", background: true, input: words(100) });
  const first = message(
    "POST /v1/responses HTTP/1.1",
    [HOST, KEY, TYPE, `Content-Length: ${asked.length}`],
    asked,
  );
  const second = post(chatBody({ model: "paid", messages: [{ role: "user", content: words(500) }] }));
  await client.send(isTogether ? first + second : first);
  const response = await client.readResponse();
  if (!isTogether) await client.send(second);
  expect([response.status, (await client.readResponse()).status]).toEqual([200, 200]);
  status = "completed";
  const { flags, inputTokens, chargedNano } = await gateway.records.row(
    response.header("x-request-id") ?? "",
  );
  return { flags, inputTokens, chargedNano };
}

test("a background response costs the same with a long request pipelined behind it", async () => {
  const apart = await costInBackground(false);
  expect(apart.inputTokens).toBeGreaterThan(500);
  expect(await costInBackground(true)).toEqual(apart);
});
