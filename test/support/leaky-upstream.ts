/** An upstream that leaks its secrets everywhere: in headers, errors, streams and the responses themselves. */

export interface LeakyUpstream {
  url: string;
  /** `host:port`, which clients must not see. */
  host: string;
  requestCount(): number;
  stop(): Promise<void>;
}

/** Upstream models: each leaks in its own way. */
export const LEAKS = [
  "chat-error-first",
  "chat-error-later",
  "chat-error-text",
  "chat-comments",
  "chat-whole-error",
  "responses-failed-first",
  "responses-failed-later",
  "responses-error-event",
  "responses-comments",
  "responses-whole-failed",
  "responses-whole-error",
  "images-error-event",
  "images-whole-error",
  "embeddings-whole-error",
  "html-page",
  "plain-text-400",
  "nested-400",
] as const;
export type Leak = (typeof LEAKS)[number];

const isLeak = (name: string): name is Leak => LEAKS.some((leak) => leak === name);

export function startLeakyUpstream(secretsFor: (host: string) => string): LeakyUpstream {
  let responded = 0;
  let host = "";
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      responded++;
      const text = secretsFor(host);
      if (request.method !== "POST") return json(200, failedResponse("stored", text), text);
      const { model } = (await request.json()) as { model: string };
      return isLeak(model) ? respond(model, text) : json(500, { error: { message: text } }, text);
    },
  });
  host = `127.0.0.1:${server.port}`;
  return {
    url: `http://${host}/v1`,
    host,
    requestCount: () => responded,
    stop: () => server.stop(true),
  };
}

function respond(leak: Leak, text: string): Response {
  const error = { message: text, type: text, param: text, code: text, internal: { account: text } };
  const leaked = { error, request_id: text, organization: text };
  switch (leak) {
    case "chat-error-first":
      return events([chunk(leak, { role: "assistant", content: "" }), leaked], text);
    case "chat-error-later":
      return events([chunk(leak, { content: "Hello " }), leaked, "[DONE]"], text);
    case "chat-error-text":
      return events([chunk(leak, { content: "Hello " }), { error: text }], text);
    case "chat-comments":
      return raw(
        `: ${text}\n\ndata: ${JSON.stringify(chunk(leak, { content: "Hello " }))}\n\n: ${text}\n\n` +
          `event: ${text}\ndata: ${JSON.stringify({ ...chunk(leak, {}), choices: [{ index: 0, delta: {}, finish_reason: "stop" }] })}\n\n` +
          "data: [DONE]\n\n",
        text,
      );
    case "responses-failed-first":
      return events([created(leak), failedEvent(leak, 1, text)], text);
    case "responses-failed-later":
      return events([created(leak), delta(1), failedEvent(leak, 2, text)], text);
    case "responses-error-event":
      return events([created(leak), delta(1), { ...error, type: "error", sequence_number: 2 }], text);
    case "responses-comments":
      return raw(`: ${text}\n\n${sse([created(leak), delta(1)])}: ${text}\n\n`, text);
    case "responses-whole-failed":
      return json(200, failedResponse(leak, text), text);
    case "images-error-event":
      return events(
        [
          { type: "image_generation.partial_image", b64_json: "AAAA" },
          { type: "error", error },
        ],
        text,
      );
    case "chat-whole-error":
    case "responses-whole-error":
    case "images-whole-error":
    case "embeddings-whole-error":
      return json(200, leaked, text);
    case "html-page":
      return new Response(`<html>${text}</html>`, {
        headers: { ...headers(text), "content-type": "text/html" },
      });
    case "plain-text-400":
      return new Response(text, { status: 400, headers: headers(text) });
    case "nested-400":
      return json(
        400,
        { detail: [{ msg: text, loc: [text] }], message: text, error: { message: { text }, code: 7 } },
        text,
      );
  }
}

function chunk(model: Leak, content: object): Record<string, unknown> {
  const choices = [{ index: 0, delta: content, finish_reason: null }];
  return { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model, choices };
}

function responseObject(model: string, status: string): Record<string, unknown> {
  return { id: "resp_leaky", object: "response", created_at: 1, status, model, output: [], error: null };
}

function failedResponse(model: string, text: string): Record<string, unknown> {
  return { ...responseObject(model, "failed"), error: { code: text, message: text, account: text } };
}

const created = (model: Leak) => ({
  type: "response.created",
  sequence_number: 0,
  response: responseObject(model, "in_progress"),
});
const delta = (sequence: number) => ({
  type: "response.output_text.delta",
  sequence_number: sequence,
  item_id: "msg_1",
  output_index: 0,
  content_index: 0,
  delta: "Hello",
});
const failedEvent = (model: Leak, sequence: number, text: string) => ({
  type: "response.failed",
  sequence_number: sequence,
  response: failedResponse(model, text),
});

function sse(items: readonly (Record<string, unknown> | string)[]): string {
  return items
    .map((item) => {
      if (typeof item === "string") return `data: ${item}\n\n`;
      const event = typeof item.type === "string" ? `event: ${item.type}\n` : "";
      return `${event}data: ${JSON.stringify(item)}\n\n`;
    })
    .join("");
}

function events(items: readonly (Record<string, unknown> | string)[], text: string): Response {
  return raw(sse(items), text);
}

function raw(body: string, text: string): Response {
  return new Response(body, { headers: { ...headers(text), "content-type": "text/event-stream" } });
}

function json(status: number, body: unknown, text: string): Response {
  return Response.json(body, { status, headers: headers(text) });
}

function headers(text: string): Record<string, string> {
  return {
    "openai-organization": text,
    "openai-processing-ms": text,
    "x-request-id": text,
    "x-reasoning-included": text,
    "openai-model": text,
    "x-codex-turn-state": text,
    "retry-after": text,
    "set-cookie": `session=${encodeURIComponent(text)}`,
    server: text,
  };
}
