/** Upstream error messages as clients see them: codes are kept, and information about the account is removed. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { expectRejection } from "../support/error-envelope.ts";
import { type PooledGateway, PUBLIC_MODEL, startPooledGateway } from "../support/pooled-gateway.ts";
import { asRecord, eventsIn, payload } from "../support/sse-text.ts";
import { openSocketClient } from "../support/turn-client.ts";

let respondTo: () => Response;
let asked = 0;
let upstream: ReturnType<typeof Bun.serve>;
let gateway: PooledGateway;

beforeAll(async () => {
  upstream = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch() {
      asked++;
      return respondTo();
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
  const expected = { code, message: "token [redacted] of [redacted] refused it" };

  test("reports the code in its stream", async () => {
    respondTo = failing(code);
    const failed = payload(eventsIn(await (await respond()).text()).at(-2));
    expect(failed).toMatchObject({
      type: "response.failed",
      sequence_number: 2,
      response: { error: expected },
    });
  });

  test("reports the code over a WebSocket", async () => {
    respondTo = failing(code);
    const client = await openSocketClient(gateway.url);
    const { last } = await client.turn({ model: PUBLIC_MODEL, input: "hi" });
    client.close();
    expect(last).toMatchObject({ type: "response.failed", response: { error: expected } });
  });

  test("is rejected with that code after a single attempt", async () => {
    respondTo = () =>
      Response.json(
        { error: { code, type: "", message: "That is not allowed.", param: "prompt" } },
        { status: 403 },
      );
    const before = asked;
    for (let i = 0; i < 2; i++) {
      expect(await expectRejection(await gateway.send({}), 400)).toMatchObject({ code, param: "prompt" });
    }
    expect(asked - before).toBe(2);
  });
});

test("a content filter is reported in a chunk of a chat stream that has begun", async () => {
  const chunk = { id: "c", model: "um", choices: [{ index: 0, delta: { content: "Well" } }] };
  const error = { code: "content_filter", message: "Refused by Azure OpenAI's policy." };
  respondTo = streamed(`data: ${JSON.stringify(chunk)}\n\n`, `data: ${JSON.stringify({ error })}\n\n`);
  const events = eventsIn(await (await gateway.send({ stream: true })).text());
  expect(asRecord(payload(events.at(-1)).error)).toMatchObject({ ...error, type: "invalid_request_error" });
});

test("the error message of a vLLM server is delivered", async () => {
  const message = "This model's maximum context length is 4096 tokens.";
  respondTo = () =>
    Response.json(
      { object: "error", message, type: "BadRequestError", param: null, code: 400 },
      { status: 400 },
    );
  expect(await expectRejection(await gateway.send({}), 400)).toMatchObject({ message });
});

test("an error that passed through LiteLLM keeps its message and class names", async () => {
  const message =
    "litellm.ContextWindowExceededError: litellm.BadRequestError: OpenAIException - ctx too long";
  respondTo = () =>
    Response.json({ error: { message, type: null, param: null, code: "400" } }, { status: 400 });
  expect(await expectRejection(await gateway.send({}), 400)).toMatchObject({
    message,
    code: "context_length_exceeded",
  });
});

test("no event contains the upstream's model, its headers or events of intermediaries", async () => {
  respondTo = streamed(
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
