/** One long plain text in an event of a stream that is passed on does not hold the event loop, also where it is counted. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { TEST_KEY } from "../support/running-gateway.ts";
import { type AttackTarget, measureAttack, startAttackTarget } from "./attack-setup.ts";

setDefaultTimeout(120_000);

const MIB = 1024 * 1024;
const DIALECTS = ["chat", "responses", "messages", "gemini"] as const;
type Dialect = (typeof DIALECTS)[number];
const KINDS = { chat: "openai", responses: "openai", messages: "anthropic", gemini: "gemini" } as const;
/** A model for each attack, because some of them make the upstream's model cool down. */
const MODELS = 4;

let upstream: Bun.Server<undefined>;
let target: AttackTarget;
let reply = "";

beforeAll(async () => {
  upstream = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 0,
    async fetch(request) {
      await request.arrayBuffer();
      return new Response(reply, { headers: { "content-type": "text/event-stream" } });
    },
  });
  target = await startAttackTarget({ file: buildFile(`http://127.0.0.1:${upstream.port}`) });
  // The first requests compile the code and load the tokenizer.
  for (let run = 0; run < 5; run++)
    for (const dialect of DIALECTS)
      await request(dialect, 0, buildStream(dialect, "word ".repeat(20), false));
});
afterAll(async () => {
  await target?.stop();
  await upstream.stop(true);
});

function buildFile(origin: string): string {
  const names = (dialect: Dialect) => Array.from({ length: MODELS }, (_, at) => `${dialect}${at}`);
  const models = DIALECTS.flatMap(names);
  return JSON.stringify({
    models: models.map((id) => ({ id, interfaces: DIALECTS })),
    accounts: DIALECTS.map((dialect) => ({
      name: dialect,
      kind: KINDS[dialect],
      base_url: dialect === "gemini" ? origin : `${origin}/v1`,
      credential: "credential",
      private_network: true,
      ...(KINDS[dialect] === "openai" ? { interfaces: [dialect] } : {}),
      models: Object.fromEntries(names(dialect).map((model) => [model, model])),
    })),
    groups: [{ name: "default", interfaces: DIALECTS, models, accounts: DIALECTS }],
    users: [{ email: "dev@example.com", role: "user" }],
    keys: [{ name: "test", user: "dev@example.com", group: "default", secret: TEST_KEY }],
  });
}

const event = (json: Record<string, unknown> & { type: string }) =>
  `event: ${json.type}\ndata: ${JSON.stringify(json)}\n\n`;
const data = (json: object) => `data: ${JSON.stringify(json)}\n\n`;

/** Without usage, so that the text is counted. */
function buildStream(dialect: Dialect, text: string, isDelta: boolean): string {
  switch (dialect) {
    case "chat":
      return `${data({ id: "c", choices: [{ index: 0, delta: { content: text }, finish_reason: isDelta ? null : "stop" }] })}${data({ id: "c", choices: [{ index: 0, delta: {}, finish_reason: "stop" }] })}data: [DONE]\n\n`;
    case "responses":
      return (
        event({ type: "response.created", response: { id: "r", status: "in_progress", output: [] } }) +
        (isDelta ? event({ type: "response.output_text.delta", delta: text }) : "") +
        event({
          type: "response.completed",
          response: {
            id: "r",
            status: "completed",
            output: [{ type: "message", content: [{ type: "output_text", text: isDelta ? "" : text }] }],
          },
        })
      );
    case "messages":
      return (
        event({ type: "message_start", message: { id: "m", content: [] } }) +
        event({
          type: "content_block_start",
          index: 0,
          content_block: { type: "text", text: isDelta ? "" : text },
        }) +
        event({
          type: "content_block_delta",
          index: 0,
          delta: { type: "text_delta", text: isDelta ? text : "a" },
        }) +
        event({ type: "content_block_stop", index: 0 }) +
        event({ type: "message_delta", delta: { stop_reason: "end_turn" } }) +
        event({ type: "message_stop" })
      );
    case "gemini":
      return (
        (isDelta ? data({ candidates: [{ content: { parts: [{ text }] } }] }) : "") +
        data({ candidates: [{ content: { parts: [{ text: isDelta ? "a" : text }] }, finishReason: "STOP" }] })
      );
  }
}

async function request(dialect: Dialect, at: number, stream: string, n = 1): Promise<number> {
  reply = stream;
  const model = `${dialect}${at}`;
  const messages = [{ role: "user", content: "Hello" }];
  const [path, body] = {
    chat: ["/v1/chat/completions", { model, messages, stream: true, n }],
    responses: ["/v1/responses", { model, input: "Hello", stream: true }],
    messages: ["/v1/messages", { model, messages, max_tokens: 9, stream: true }],
    gemini: [
      `/v1beta/models/${model}:streamGenerateContent?alt=sse`,
      { contents: [{ role: "user", parts: [{ text: "Hello" }] }] },
    ],
  }[dialect] as [string, object];
  const response = await fetch(target.url + path, {
    method: "POST",
    headers: { authorization: `Bearer ${TEST_KEY}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return (await response.text()).length;
}

const TEXTS: Readonly<Record<string, string>> = {
  words: "word ".repeat(3 * MIB),
  "letters of two bytes": "é".repeat(7.5 * MIB),
};

test.each(
  DIALECTS.flatMap((dialect) =>
    Object.keys(TEXTS).flatMap((name, at) =>
      [true, false].map((isDelta) => [dialect, name, isDelta, 2 * at + Number(isDelta)] as const),
    ),
  ),
)("%s: 15 MiB of %s in one event (as a delta: %p)", async (dialect, name, isDelta, at) => {
  const stream = buildStream(dialect, TEXTS[name] ?? "", isDelta);
  let received = 0;
  await measureAttack(`${dialect}, ${isDelta ? "a delta" : "an end"} of 15 MiB of ${name}`, target, {
    bytes: stream.length,
    run: async () => {
      received = await request(dialect, at, stream, dialect === "chat" && isDelta ? 2 : 1);
    },
  });
  expect(received).toBeLessThan(2 * stream.length);
});
