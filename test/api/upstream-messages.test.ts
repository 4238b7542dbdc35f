/** What an upstream says of a request it refuses, as clients hear it: its codes stay, what names its account goes. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { refusalOf } from "../support/error-envelope.ts";
import { type PooledGateway, PUBLIC_MODEL, startPooledGateway } from "../support/pooled-gateway.ts";
import { eventsIn, payload, recordOf } from "../support/sse-text.ts";
import { openSocketClient } from "../support/turn-client.ts";

let answer: () => Response;
let asked = 0;
let upstream: ReturnType<typeof Bun.serve>;
let gateway: PooledGateway;

beforeAll(async () => {
  upstream = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch() {
      asked++;
      return answer();
    },
  });
  const url = `http://127.0.0.1:${upstream.port}/v1`;
  const models = { [PUBLIC_MODEL]: "um" };
  gateway = await startPooledGateway({ accounts: [{ url, credential: "opensesame", models }] });
});

afterAll(async () => {
  await gateway.stop();
  await upstream.stop(true);
});

const RESPONSE = { id: "resp_1", object: "response", status: "in_progress", model: "um-2026", output: [] };
const event = (type: string, rest: object) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...rest })}\n\n`;
const BEGUN =
  event("response.created", { sequence_number: 0, response: RESPONSE }) +
  event("response.output_text.delta", { sequence_number: 1, delta: "Well" });

function streamed(...events: string[]): () => Response {
  return () => new Response(events.join(""), { headers: { "content-type": "text/event-stream" } });
}

function failing(code: string): () => Response {
  const error = { code, message: "token opensesame of Acme Corp refused it" };
  const response = { ...RESPONSE, status: "failed", error };
  return streamed(BEGUN, event("response.failed", { sequence_number: 2, response }));
}

const respond = () => gateway.call("/v1/responses", { model: PUBLIC_MODEL, input: "hi", stream: true });

describe.each(["invalid_prompt", "cyber_policy", "image_too_large"])("a turn that ends in %s", (code) => {
  const told = { code, message: "token [redacted] of [redacted] refused it" };

  test("is told so in its stream", async () => {
    answer = failing(code);
    const failed = payload(eventsIn(await (await respond()).text()).at(-2));
    expect(failed).toMatchObject({ type: "response.failed", sequence_number: 2, response: { error: told } });
  });

  test("is told so over a WebSocket", async () => {
    answer = failing(code);
    const client = await openSocketClient(gateway.url);
    const { last } = await client.turn({ model: PUBLIC_MODEL, input: "hi" });
    client.close();
    expect(last).toMatchObject({ type: "response.failed", response: { error: told } });
  });

  test("is refused whole by that code, by one account, once", async () => {
    answer = () =>
      Response.json(
        { error: { code, type: "", message: "That is not allowed.", param: "prompt" } },
        { status: 403 },
      );
    const before = asked;
    for (let i = 0; i < 2; i++) {
      expect(await refusalOf(await gateway.ask({}), 400)).toMatchObject({ code, param: "prompt" });
    }
    expect(asked - before).toBe(2);
  });
});

test("a content filter is told in a chunk of a chat that has begun", async () => {
  const chunk = { id: "c", model: "um", choices: [{ index: 0, delta: { content: "Well" } }] };
  const error = { code: "content_filter", message: "Refused by Azure OpenAI's policy." };
  answer = streamed(`data: ${JSON.stringify(chunk)}\n\n`, `data: ${JSON.stringify({ error })}\n\n`);
  const events = eventsIn(await (await gateway.ask({ stream: true })).text());
  expect(recordOf(payload(events.at(-1)).error)).toMatchObject({ ...error, type: "invalid_request_error" });
});

test("the reason of a vLLM server that refuses is told", async () => {
  const message = "This model's maximum context length is 4096 tokens.";
  answer = () =>
    Response.json(
      { object: "error", message, type: "BadRequestError", param: null, code: 400 },
      { status: 400 },
    );
  expect(await refusalOf(await gateway.ask({}), 400)).toMatchObject({ message });
});

test("what passed LiteLLM keeps its words and its class names", async () => {
  const message =
    "litellm.ContextWindowExceededError: litellm.BadRequestError: OpenAIException - ctx too long";
  answer = () => Response.json({ error: { message, type: null, param: null, code: "400" } }, { status: 400 });
  expect(await refusalOf(await gateway.ask({}), 400)).toMatchObject({
    message,
    code: "context_length_exceeded",
  });
});

test("no event names the upstream's model, its headers or what is between it and us", async () => {
  answer = streamed(
    BEGUN,
    event("response.output_text.delta", { delta: "!", headers: { "openai-model": "um-2026" } }),
    `event: response.output_item.added\ndata: {"type":"codex.rate_limits","plan_type":"pro"}\n\n`,
    event("response.compaction.compacting", { response: RESPONSE }),
    event("response.completed", { response: { ...RESPONSE, status: "completed" } }),
  );
  const text = await (await respond()).text();
  expect(text).not.toMatch(/um-2026|headers|codex|plan_type/);
  expect(eventsIn(text).map(({ type }) => type)).toEqual([
    "response.created",
    "response.output_text.delta",
    "response.output_text.delta",
    "response.compaction.compacting",
    "response.completed",
    null,
  ]);
  expect(text).toContain(`"model":"${PUBLIC_MODEL}"`);
});
