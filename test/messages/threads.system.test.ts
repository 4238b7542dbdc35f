/**
 * Threads of Anthropic's SDKs: a turn sends only its new messages and names the last response. Anthropic holds such a
 * conversation; every other account needs all of it.
 */

import { afterEach, describe, expect, test } from "bun:test";
import { eventually } from "../support/eventually.ts";
import { type RunningGateway, TEST_KEY } from "../support/running-gateway.ts";
import {
  chatCall,
  chatCompletion,
  type Json,
  startVendorGateway,
  VENDOR_MODEL,
  type VendorAccount,
} from "../vendors/vendor-gateway.ts";
import { openSdk } from "./anthropic-sdk.ts";

const stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

async function start(...[accounts, options]: Parameters<typeof startVendorGateway>) {
  const gateway = await startVendorGateway(accounts, options);
  stops.push(gateway.stop);
  return gateway;
}

/** Calls the tool in each of the first turns, and then responds. */
const CALLS = 3;

const chatAccount: VendorAccount = {
  account: { kind: "openai", interfaces: ["chat"] },
  respond({ body }) {
    const results = (body.messages as Json[]).filter(({ role }) => role === "tool").length;
    return results < CALLS
      ? chatCompletion(
          { tool_calls: [chatCall(`call_${results}`, "add", { number: results })] },
          "tool_calls",
        )
      : chatCompletion({ content: "The sum is 3." });
  },
};

/** Anthropic's API as far as threads go: it holds the messages of each response, and knows no others. */
function anthropicAccount(
  prefix: string,
  account: object = {},
): VendorAccount & { held: Map<string, Json[]> } {
  const held = new Map<string, Json[]>();
  let count = 0;
  return {
    held,
    account: { kind: "anthropic", ...account },
    respond({ headers, body }) {
      const thread = body.thread as { type: string; previous_message_id?: string } | undefined;
      if (thread !== undefined && !headers.get("anthropic-beta")?.includes("message-threads"))
        return rejection(400, "invalid_request_error", null);
      const before = held.get(thread?.previous_message_id ?? "");
      if (thread?.type === "continue" && before === undefined)
        return rejection(404, "not_found_error", "thread_not_found");
      const messages = [...(before ?? []), ...(body.messages as Json[])];
      const results = JSON.stringify(messages).split('"tool_result"').length - 1;
      const content =
        results < CALLS
          ? [{ type: "tool_use", id: `toolu_${results}`, name: "add", input: { number: results } }]
          : [{ type: "text", text: "The sum is 3." }];
      const id = `msg_${prefix}${++count}`;
      if (thread !== undefined) held.set(id, [...messages, { role: "assistant", content }]);
      const stop_reason = results < CALLS ? "tool_use" : "end_turn";
      const message = {
        id,
        type: "message",
        role: "assistant",
        model: "upstream-model",
        content,
        stop_reason,
        stop_sequence: null,
      };
      const usage = { input_tokens: 10, output_tokens: 5 };
      return body.stream === true
        ? streamMessage({ ...message, usage })
        : Response.json({ ...message, usage });
    },
  };
}

function rejection(status: number, type: string, code: string | null): Response {
  const details = code === null ? null : { error_code: code };
  const error = { type, message: "Rejected.", details };
  return Response.json({ type: "error", error, request_id: "req_1" }, { status });
}

function streamMessage({
  content,
  stop_reason,
  ...message
}: Json & { content: Json[]; stop_reason: string }): Response {
  const start = { ...message, content: [], stop_reason: null };
  const events: Json[] = [{ type: "message_start", message: start }];
  for (const [index, block] of content.entries()) {
    const isText = block.type === "text";
    const delta = isText
      ? { type: "text_delta", text: block.text }
      : { type: "input_json_delta", partial_json: JSON.stringify(block.input) };
    const content_block = isText ? { ...block, text: "" } : { ...block, input: {} };
    events.push({ type: "content_block_start", index, content_block });
    events.push({ type: "content_block_delta", index, delta }, { type: "content_block_stop", index });
  }
  events.push({
    type: "message_delta",
    delta: { stop_reason, stop_sequence: null },
    usage: { output_tokens: 5 },
  });
  events.push({ type: "message_stop" });
  const text = events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("");
  return new Response(text, { headers: { "content-type": "text/event-stream" } });
}

interface ToolRunnerSdk {
  beta: {
    messages: {
      toolRunner(params: object): { runUntilDone(): Promise<{ content: Json[] }> };
    };
  };
}

/** Runs the SDK's loop to its end: three calls of a tool and the final text. */
async function runTools(url: string, stream: boolean): Promise<string> {
  const sdk = (await openSdk("1.x", url)) as unknown as ToolRunnerSdk;
  const add = {
    name: "add",
    description: "Adds a number",
    input_schema: { type: "object", properties: { number: { type: "integer" } } },
    run: ({ number }: { number: number }) => `added ${number}`,
    parse: (input: unknown) => input,
  };
  const runner = sdk.beta.messages.toolRunner({
    model: VENDOR_MODEL,
    max_tokens: 100,
    system: "Use the tool.",
    tools: [add],
    messages: [{ role: "user", content: "Add up to two." }],
    stream,
  });
  const { content } = await runner.runUntilDone();
  return content.map(({ text }) => String(text)).join("");
}

describe.each([false, true])("the SDK's tool runner, streamed: %p", (stream) => {
  test("reaches an account of another dialect with the whole conversation in every turn", async () => {
    const account: VendorAccount = {
      ...chatAccount,
      respond: (request) => (stream ? chatStream(request.body) : chatAccount.respond(request)),
    };
    const gateway = await start([account]);
    expect(await runTools(gateway.url, stream)).toBe("The sum is 3.");
    const roles = (gateway.received[0] ?? []).map(({ body }) =>
      (body.messages as Json[]).map(({ role }) => String(role)[0]).join(""),
    );
    expect([...new Set(roles)]).toEqual(["su", "suat", "suatat", "suatatat"]);
  });

  test("continues its thread on the account that holds it", async () => {
    const accounts = [anthropicAccount("a"), anthropicAccount("b"), anthropicAccount("c")];
    const gateway = await start(accounts);
    expect(await runTools(gateway.url, stream)).toBe("The sum is 3.");
    const requests = gateway.received.filter((list) => list.length > 0);
    expect(requests).toHaveLength(1);
    expect(
      requests[0]?.map(({ body }) => [(body.thread as Json).type, (body.messages as Json[]).length]),
    ).toEqual([
      ["create", 1],
      ["continue", 1],
      ["continue", 1],
      ["continue", 1],
    ]);
  });
});

function chatStream(body: Json): Response {
  const results = (body.messages as Json[]).filter(({ role }) => role === "tool").length;
  const isCall = results < CALLS;
  const call = { index: 0, ...chatCall(`call_${results}`, "add", { number: results }) };
  const chunks = [
    { delta: isCall ? { tool_calls: [call] } : { content: "The sum is 3." }, finish_reason: null },
    { delta: {}, finish_reason: isCall ? "tool_calls" : "stop" },
  ].map(
    (choice) =>
      `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", choices: [{ index: 0, ...choice }] })}\n\n`,
  );
  return new Response(`${chunks.join("")}data: [DONE]\n\n`, {
    headers: { "content-type": "text/event-stream" },
  });
}

const BETA = { "anthropic-beta": "message-threads-2026-08-12" };
const sendTurn = (gateway: Pick<RunningGateway, "url">, thread: object, text = "Hello") =>
  fetch(`${gateway.url}/v1/messages`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-api-key": TEST_KEY, ...BETA },
    body: JSON.stringify({
      model: VENDOR_MODEL,
      max_tokens: 10,
      thread,
      messages: [{ role: "user", content: text }],
    }),
  });

async function beginThread(gateway: Pick<RunningGateway, "url">): Promise<string> {
  const response = await sendTurn(gateway, { type: "create" });
  return ((await response.json()) as { id: string }).id;
}

const NOT_FOUND = {
  type: "error",
  error: { type: "not_found_error", code: "thread_not_found", details: { error_code: "thread_not_found" } },
};

test("a thread begins at an account of another dialect without the field, which is named, and cannot be continued", async () => {
  const gateway = await start([chatAccount]);
  const response = await sendTurn(gateway, { type: "create" });
  expect([response.status, response.headers.get("x-gateway-dropped")]).toEqual([200, "thread"]);
  const { id } = (await response.json()) as { id: string };
  const next = await sendTurn(gateway, { type: "continue", previous_message_id: id });
  expect([next.status, await next.json()]).toMatchObject([404, NOT_FOUND]);
  expect(gateway.received[0]).toHaveLength(1);
});

test("a message that ends no thread of the key is not found", async () => {
  const gateway = await start([anthropicAccount("a")]);
  const previous_message_id = await beginThread(gateway);
  expect((await sendTurn(gateway, { type: "continue", previous_message_id })).status).toBe(200);
  const unknown = await sendTurn(gateway, { type: "continue", previous_message_id: "msg_unknown" });
  expect([unknown.status, await unknown.json()]).toMatchObject([404, NOT_FOUND]);
});

test("the thread of an account that was removed is not found, so that the client sends the conversation", async () => {
  const gateway = await start([anthropicAccount("a"), anthropicAccount("b")]);
  const previous_message_id = await beginThread(gateway);
  const other = previous_message_id.startsWith("msg_a") ? "vendor-1" : "vendor-0";
  await gateway.apply(gateway.fileWith([other]));
  const next = await eventually(async () => {
    const response = await sendTurn(gateway, { type: "continue", previous_message_id });
    return response.status === 200 ? null : response;
  });
  expect([next.status, await next.json()]).toMatchObject([404, NOT_FOUND]);
});

describe("an error of Anthropic about a thread keeps its code", () => {
  test.each([
    ["thread_not_found", 404, "not_found_error"],
    ["thread_already_continued", 400, "invalid_request_error"],
    ["thread_continue_in_flight", 400, "invalid_request_error"],
    ["thread_fingerprint_mismatch", 400, "invalid_request_error"],
    ["thread_unsupported_request", 400, "invalid_request_error"],
  ])("%s", async (code, status, type) => {
    const gateway = await start([
      { account: { kind: "anthropic" }, respond: () => rejection(status, type, code) },
    ]);
    const response = await sendTurn(gateway, { type: "create" });
    expect(response.status).toBe(status);
    expect(await response.json()).toMatchObject({ error: { type, details: { error_code: code } } });
  });
});
