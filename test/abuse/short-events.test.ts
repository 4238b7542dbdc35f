/**
 * Streams of events and lines that are as short as possible, as fast as the gateway reads them: however many arrive in one
 * read, the event loop is left to other requests in between.
 */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { responseBounds } from "../../src/count-limits.ts";
import { TEST_KEY } from "../support/running-gateway.ts";
import { type AttackTarget, measureAttack, startAttackTarget } from "./attack-setup.ts";

setDefaultTimeout(120_000);

const MIB = 1024 * 1024;
const CONTENT = 'data: {"id":"c","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n';
const END = 'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n';
/** Most of what one turn of the event loop could receive from a fast upstream. */
const BYTES = 4 * MIB;
const repeat = (event: string) => event.repeat(BYTES / event.length);

const STREAMS: Readonly<Record<string, { readonly text: string; readonly isServed: boolean }>> = {
  "tiny-events": { text: repeat("data:{}\n\n"), isServed: true },
  "events-without-data": { text: repeat("data:\n\n"), isServed: true },
  "unknown-fields": { text: repeat("a\n\n"), isServed: true },
  comments: { text: repeat(":\n\n"), isServed: true },
  "blank-lines": { text: repeat("\r\n"), isServed: true },
  "lines-of-a-comment": { text: `${repeat(":\n")}\n`, isServed: false },
  "lines-of-an-event": { text: `${repeat("a\n")}\n`, isServed: false },
  "lines-of-data": { text: `${repeat("data\n")}\n`, isServed: false },
  "lines-within-the-bound": {
    text: `${":\n".repeat(responseBounds.eventLinesMax)}\n`,
    isServed: true,
  },
};

const INTERFACES = ["chat", "messages"] as const;
let upstream: ReturnType<typeof Bun.serve>;
let target: AttackTarget;

beforeAll(async () => {
  upstream = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      const { model } = (await request.json()) as { model: string };
      const text = CONTENT + (STREAMS[model]?.text ?? "") + END;
      return new Response(text, { headers: { "content-type": "text/event-stream" } });
    },
  });
  target = await startAttackTarget({ file: buildFile(`http://127.0.0.1:${upstream.port}/v1`) });
  // The first requests compile the code.
  for (let run = 0; run < 10; run++) for (const client of INTERFACES) await send(client, "plain");
});
afterAll(async () => {
  await target?.stop();
  await upstream.stop(true);
});

function buildFile(base_url: string): string {
  const models = ["plain", ...Object.keys(STREAMS)];
  return JSON.stringify({
    models: models.map((id) => ({ id, interfaces: INTERFACES })),
    accounts: [
      {
        name: "chat",
        kind: "openai",
        base_url,
        credential: "credential",
        private_network: true,
        interfaces: ["chat"],
        models: Object.fromEntries(models.map((model) => [model, model])),
      },
    ],
    groups: [{ name: "default", interfaces: INTERFACES, models, accounts: ["chat"] }],
    users: [{ email: "dev@example.com", role: "user" }],
    keys: [{ name: "test", user: "dev@example.com", group: "default", secret: TEST_KEY }],
  });
}

/** Returns the end of what the client receives. */
async function send(client: (typeof INTERFACES)[number], model: string): Promise<string> {
  const messages = [{ role: "user", content: "Hello" }];
  const path = client === "chat" ? "/v1/chat/completions" : "/v1/messages";
  const response = await fetch(target.url + path, {
    method: "POST",
    headers: { authorization: `Bearer ${TEST_KEY}`, "content-type": "application/json" },
    body: JSON.stringify({ model, messages, max_tokens: 9, stream: true }),
  });
  return (await response.text()).slice(-500);
}

test.each(Object.keys(STREAMS).flatMap((model) => INTERFACES.map((client) => [model, client] as const)))(
  "%s for a client of %s",
  async (model, client) => {
    let received = "";
    await measureAttack(`${model} → ${client}`, target, {
      bytes: STREAMS[model]?.text.length ?? 0,
      run: async () => {
        received = await send(client, model);
      },
    });
    const isServed = received.includes(client === "chat" ? "[DONE]" : "message_stop");
    expect([isServed, received.includes(`"error":{`)]).toEqual(
      STREAMS[model]?.isServed ? [true, false] : [false, true],
    );
  },
);
