/** Clients that disconnect at the cheapest moments, and a gateway that shuts down meanwhile. */

import { describe, expect, setDefaultTimeout, test } from "bun:test";
import type { UsageRow } from "../../src/store/usage/usage.ts";
import {
  chatChunk,
  chatUsage,
  eventStream,
  type GatewayWithResponses,
  responsesEvent,
  startGatewayWithResponses,
} from "../support/canned-upstream.ts";
import { eventually } from "../support/eventually.ts";
import { bill, openBillingRecords, PRICE } from "../support/paid-gateway.ts";
import { stopAfterEach } from "../support/stop-after-each.ts";

setDefaultTimeout(60_000);

const stopLater = stopAfterEach();

function start(...how: Parameters<typeof startGatewayWithResponses>): Promise<GatewayWithResponses> {
  return stopLater(startGatewayWithResponses(...how));
}

/** Nearly all of it was reasoning, which is not in the text. */
const USED = { input: 10, output: 5_000 };
const COST = bill([
  [USED.input, PRICE.input],
  [USED.output, PRICE.output],
]);
const CHAT_END = [
  chatUsage({ prompt_tokens: USED.input, completion_tokens: USED.output, total_tokens: 5_010 }),
  "data: [DONE]\n\n",
];
const RESPONSE = { id: "resp_1", object: "response", model: "up", output: [] };
const RESPONSES_END = responsesEvent("response.completed", {
  response: { ...RESPONSE, usage: { input_tokens: USED.input, output_tokens: USED.output } },
});

const CANCEL = { on_disconnect: "cancel" };
const CHAT = ["/v1/chat/completions", { messages: [{ role: "user", content: "hi" }] }] as const;
const RESPONSES = ["/v1/responses", { input: "hi" }] as const;

function onlyRow(gateway: GatewayWithResponses): Promise<UsageRow> {
  return eventually(async () => {
    const [row] = await gateway.usageRows();
    return row === undefined ? null : gateway.records.findRow(String(row.request_id));
  });
}

/** Opens a stream and disconnects after this much text. */
async function leaveAt(
  gateway: GatewayWithResponses,
  path: string,
  prompt: object,
  mark: string,
): Promise<void> {
  const leaving = new AbortController();
  const body = { model: "paid", ...prompt, stream: true };
  const response = await gateway.call(path, body, { signal: leaving.signal });
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  for (let text = ""; !text.includes(mark); ) text += decoder.decode((await reader?.read())?.value);
  leaving.abort();
}

/** Long enough for the gateway to notice a disconnect; the tests do not depend on it. */
const noticed = () => Bun.sleep(200);

describe("a disconnect at the last word, with on_disconnect cancel, is charged its reasoning too", () => {
  test("in a chat completion: before its usage", async () => {
    const gate = Promise.withResolvers<void>();
    const gateway = await start(
      () => eventStream([chatChunk({ content: "hello" }), chatChunk({}, "stop"), gate.promise, ...CHAT_END]),
      CANCEL,
    );
    await leaveAt(gateway, ...CHAT, '"stop"');
    await noticed();
    gate.resolve();
    expect(await onlyRow(gateway)).toMatchObject({ outputTokens: USED.output, chargedNano: COST });
  });

  test("in a response: before its end", async () => {
    const gate = Promise.withResolvers<void>();
    const received = [
      responsesEvent("response.created", { response: RESPONSE }),
      responsesEvent("response.output_text.delta", { delta: "hello" }),
      responsesEvent("response.output_item.done"),
    ];
    const gateway = await start(() => eventStream([received.join(""), gate.promise, RESPONSES_END]), CANCEL);
    await leaveAt(gateway, ...RESPONSES, "output_item.done");
    await noticed();
    gate.resolve();
    expect(await onlyRow(gateway)).toMatchObject({ outputTokens: USED.output, chargedNano: COST });
  });

  test("but the stream is not read for long", async () => {
    const gateway = await start(
      () =>
        eventStream([
          chatChunk({ content: "hello" }),
          chatChunk({}, "stop"),
          Promise.withResolvers().promise,
        ]),
      CANCEL,
      { endingDrainMs: 50 },
    );
    await leaveAt(gateway, ...CHAT, '"stop"');
    expect(await onlyRow(gateway)).toMatchObject({ outcome: "client_gone", usageSource: "partial" });
  });
});

test.each([15_000, 100])(
  "a drain reads the whole stream after a disconnect before any content (keep-alive after %p ms)",
  async (keepAliveMs) => {
    const gate = Promise.withResolvers<void>();
    const gateway = await start(
      () =>
        eventStream([
          ": on my way\n\n",
          gate.promise,
          chatChunk({ content: "hello" }),
          chatChunk({}, "stop"),
          ...CHAT_END,
        ]),
      { on_disconnect: "drain" },
      { keepAliveMs },
    );
    const leaving = new AbortController();
    const [path, prompt] = CHAT;
    const asked = gateway.call(path, { model: "paid", ...prompt, stream: true }, { signal: leaving.signal });
    asked.then((response) => response.text()).catch(() => {});
    await eventually(() => gateway.requests.length, { equals: 1 });
    await noticed();
    leaving.abort();
    await noticed();
    gate.resolve();
    expect(await onlyRow(gateway)).toMatchObject({ outputTokens: USED.output, chargedNano: COST });
    expect((await gateway.records.wallet()).heldNano).toBe(0n);
  },
);

describe("a gateway that shuts down", () => {
  const never = Promise.withResolvers<void>().promise;
  const WAYS = [
    ["a stream", "cancel", true, false],
    ["a stream", "drain", true, false],
    ["a stream that is drained", "drain", true, true],
    ["a whole response", "cancel", false, false],
    ["a whole response that is drained", "drain", false, true],
  ] as const;

  test.each(WAYS)("has settled %s before it closes the database (%s)", async (_, policy, stream, leaves) => {
    const gateway = await startGatewayWithResponses(
      async () => {
        if (!stream) await never;
        return eventStream([chatChunk({ content: "hello there" }), never]);
      },
      { on_disconnect: policy },
      { drainTimeoutMs: 200 },
    );
    const { db } = gateway.installation;
    // Kept open for a check afterwards.
    const close = db.close;
    db.close = async () => {};
    const leaving = new AbortController();
    const [path, prompt] = CHAT;
    const asked = gateway.call(path, { model: "paid", ...prompt, stream }, { signal: leaving.signal });
    const read = asked.then((response) => response.body?.getReader().read());
    read.catch(() => {});
    await eventually(() => gateway.requests.length, { equals: 1 });
    if (stream) await read;
    // Billing records the state of a request shortly after it changed.
    await noticed();
    if (leaves) {
      leaving.abort();
      await noticed();
    }
    await gateway.stop();
    const books = openBillingRecords(db);
    expect(await books.holds()).toBe(0);
    const rows = await db.sql`SELECT outcome, usage_source FROM usage`;
    expect(rows).toEqual([{ outcome: "client_gone", usage_source: "partial" }]);
    expect((await books.wallet()).heldNano).toBe(0n);
    await close();
  });
});
