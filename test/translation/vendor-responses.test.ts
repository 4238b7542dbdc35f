/**
 * Valid responses of vendors that a client's dialect cannot express in full: the client receives what can be expressed,
 * the loss is named, the request is sent and charged once, and the account stays in use.
 */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { type PaidGateway, startPaidGateway } from "../support/paid-gateway.ts";
import { eventsIn } from "../support/sse-text.ts";

setDefaultTimeout(60_000);

type Json = Record<string, unknown>;

const DIALECTS = ["chat", "responses", "messages", "gemini"] as const;
type Client = Exclude<(typeof DIALECTS)[number], "gemini">;
const CLIENTS: readonly Client[] = ["chat", "responses", "messages"];

/** What the upstream returns: one JSON, or the events of a stream. */
let respond: (path: string) => readonly object[] = () => [];
let calls: string[] = [];
let upstream: ReturnType<typeof Bun.serve>;
let gateway: PaidGateway;

beforeAll(async () => {
  upstream = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      const { pathname } = new URL(request.url);
      calls.push(`${pathname} ${request.headers.get("x-goog-api-key") ?? ""}`);
      const body = (await request.json()) as Json;
      const isStream = body.stream === true || pathname.endsWith(":streamGenerateContent");
      const events = respond(pathname);
      if (!isStream) return Response.json(events[0]);
      const text = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("");
      return new Response(text, { headers: { "content-type": "text/event-stream" } });
    },
  });
  const origin = `http://127.0.0.1:${upstream.port}`;
  const account = { private_network: true };
  const google = { ...account, kind: "gemini", base_url: origin, models: { google: "up" } };
  gateway = await startPaidGateway({
    balance: "1000",
    models: Object.fromEntries(
      ["google", "claude", "chatty"].map((id) => [id, { upstream: "up", more: { interfaces: DIALECTS } }]),
    ),
    accounts: [
      { ...google, name: "first", credential: "first" },
      { ...google, name: "second", credential: "second", priority: 5 },
      {
        ...account,
        name: "anthropic",
        kind: "anthropic",
        base_url: `${origin}/v1`,
        credential: "c",
        models: { claude: "up" },
      },
      {
        ...account,
        name: "chat",
        kind: "openai",
        interfaces: ["chat"],
        base_url: `${origin}/v1`,
        credential: "c",
        models: { chatty: "up" },
      },
    ],
    group: { interfaces: DIALECTS },
  });
});
afterAll(async () => {
  await gateway.stop();
  await upstream.stop(true);
});

const PATHS = { chat: "/v1/chat/completions", responses: "/v1/responses", messages: "/v1/messages" };

async function send(client: Client, model: string, stream: boolean) {
  const turn = [{ role: "user", content: "Hello" }];
  const bodies = {
    chat: { model, messages: turn, stream },
    responses: { model, input: turn, stream, store: false },
    messages: { model, messages: turn, max_tokens: 100, stream },
  };
  const response = await gateway.call(PATHS[client], bodies[client]);
  const text = await response.text();
  return { status: response.status, text, id: response.headers.get("x-request-id") ?? "", response };
}

async function readDropped(id: string): Promise<unknown> {
  const report = (await (await gateway.call(`/v1/requests/${id}`)).json()) as { attempts: Json[] };
  return report.attempts.map(({ dropped }) => dropped);
}

const usageMetadata = { promptTokenCount: 12, candidatesTokenCount: 0, totalTokenCount: 12 };
const candidate = (more: object) => ({
  candidates: [{ index: 0, ...more }],
  usageMetadata,
  modelVersion: "up",
});
const image = { inlineData: { mimeType: "image/png", data: "iVBORw0KGgo=" } };
const code = { executableCode: { language: "PYTHON", code: "1+1" } };

describe.each<[string, object, string]>([
  ["an image", { content: { parts: [image] }, finishReason: "STOP" }, "output.inlineData"],
  ["code that Google ran", { content: { parts: [code] }, finishReason: "STOP" }, "output.executableCode"],
  [
    "a call of an unknown tool",
    { content: {}, finishReason: "UNEXPECTED_TOOL_CALL", finishMessage: "Unexpected tool call" },
    "finishReason.UNEXPECTED_TOOL_CALL",
  ],
  [
    "a call that the model wrote wrongly",
    { finishReason: "MALFORMED_FUNCTION_CALL" },
    "finishReason.MALFORMED_FUNCTION_CALL",
  ],
  ["a filtered text", { finishReason: "MODEL_ARMOR" }, ""],
  ["a finish reason of the future", { finishReason: "SOMETHING_NEW" }, "finishReason.SOMETHING_NEW"],
])("%s of a Google account", (_, members, name) => {
  test.each([false, true])(
    "is a response to all clients, and the account stays (stream: %p)",
    async (stream) => {
      respond = () => [candidate(members)];
      calls = [];
      let requests = 0;
      // More than the failures that put an account into cool-down.
      for (let round = 0; round < 2; round++)
        for (const client of CLIENTS) {
          const { status, text, id } = await send(client, "google", stream);
          requests++;
          expect([status, text]).toEqual([200, text]);
          expect(text).not.toContain('"error":{');
          expect(await readDropped(id)).toEqual([name === "" ? [] : [name]]);
          const row = await gateway.records.row(id);
          expect([row.inputTokens, row.outputTokens]).toEqual([12, 0]);
          expect(row.outcome).toMatch(/^(completed|incomplete)$/);
          expect((await gateway.records.charge(id))?.amountNano).toBe(row.chargedNano);
        }
      expect(calls).toHaveLength(requests);
      expect(calls.every((call) => call.endsWith(" first"))).toBe(true);
    },
  );
});

test("a normal end without any part is still an empty response, and another account is tried", async () => {
  respond = () => [candidate({ finishReason: "STOP" })];
  calls = [];
  expect((await send("chat", "google", false)).status).toBe(502);
  expect(calls).toHaveLength(2);
});

describe("a chat upstream", () => {
  const usage = { prompt_tokens: 9, completion_tokens: 5, total_tokens: 14 };
  const stream = (...deltas: object[]) => [
    ...deltas.map((delta) => ({ id: "c", choices: [{ index: 0, delta, finish_reason: null }] })),
    { id: "c", choices: [{ index: 0, delta: {}, finish_reason: "stop" }], usage },
  ];
  const whole = (message: object) => [
    { id: "c", choices: [{ index: 0, message, finish_reason: "stop" }], usage },
  ];

  test.each([false, true])(
    "with Mistral's reasoning gives it to clients as such (stream: %p)",
    async (isStream) => {
      const thinking = { type: "thinking", thinking: [{ type: "text", text: "Let me see." }] };
      const content = [thinking, { type: "text", text: "Blue." }];
      respond = () => (isStream ? stream({ content: [thinking] }, { content: "Blue." }) : whole({ content }));
      const { text } = await send("messages", "chatty", isStream);
      expect(text).toMatch(
        isStream ? /"thinking_delta","thinking":"Let me see\."/ : /"thinking":"Let me see\."/,
      );
      expect(text).toContain("Blue.");
    },
  );

  test.each([false, true])(
    "with an empty custom call beside a call delivers the call (stream: %p)",
    async (isStream) => {
      const tool_calls = [
        {
          index: 0,
          id: "c1",
          type: "function",
          function: { name: "look_up", arguments: '{"a":1}' },
          custom: { name: "", input: "" },
        },
      ];
      respond = () => (isStream ? stream({ tool_calls }) : whole({ tool_calls }));
      const { text } = await send("responses", "chatty", isStream);
      const last = isStream ? eventsIn(text).at(-2)?.data : text;
      const json = JSON.parse(last ?? "{}") as Json;
      const response = (isStream ? json.response : json) as Json;
      expect(response.output).toMatchObject([
        { type: "function_call", name: "look_up", arguments: '{"a":1}' },
      ]);
    },
  );
});

test("a Messages call that begins with its whole input keeps it", async () => {
  const tool = { type: "tool_use", id: "t", name: "look_up", input: { a: 1 } };
  respond = () => [
    { type: "message_start", message: { id: "m", usage: { input_tokens: 9, output_tokens: 1 } } },
    { type: "content_block_start", index: 0, content_block: tool },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: "tool_use" }, usage: { output_tokens: 7 } },
    { type: "message_stop" },
  ];
  const { text } = await send("chat", "claude", true);
  expect(text).toContain('"arguments":"{\\"a\\":1}"');
});
