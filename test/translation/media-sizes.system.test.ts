/**
 * Media inside translated requests: what the upstream receives decodes to the bytes that the client sent, in every size
 * class (translated at once, and in a thread), for every type of media and every pair of dialects.
 */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";

setDefaultTimeout(120_000);

const KB = 1_000;
const SIZES = [1 * KB, 100 * KB, 300 * KB, 2_000 * KB, 20_000 * KB];
const DIALECTS = ["chat", "responses", "messages", "gemini"] as const;
type Dialect = (typeof DIALECTS)[number];
const MEDIA = ["text/plain", "image/png", "application/pdf", "audio/wav"] as const;
type Media = (typeof MEDIA)[number];

const KINDS: Readonly<Record<Dialect, string>> = {
  chat: "openai",
  responses: "openai",
  messages: "anthropic",
  gemini: "gemini",
};

let gateway: RunningGateway;
let upstream: Bun.Server<undefined>;
/** The body that the upstream received last. */
let received = "";

beforeAll(async () => {
  upstream = Bun.serve({
    port: 0,
    maxRequestBodySize: 128 * 1024 * 1024,
    async fetch(request) {
      received = await request.text();
      // Only the request matters here.
      return Response.json({ error: { message: "No.", type: "invalid_request_error" } }, { status: 400 });
    },
  });
  gateway = await startTestGateway({ file: file(upstream.url.origin) });
});

afterAll(async () => {
  await gateway.stop();
  await upstream.stop(true);
});

function file(origin: string): string {
  return JSON.stringify({
    models: DIALECTS.map((id) => ({ id, interfaces: DIALECTS })),
    accounts: DIALECTS.map((name) => ({
      name,
      kind: KINDS[name],
      base_url: name === "gemini" ? origin : `${origin}/v1`,
      credential: "credential",
      private_network: true,
      interfaces: [name],
      models: { [name]: "upstream-model" },
    })),
    groups: [{ name: "default", interfaces: DIALECTS, models: DIALECTS, accounts: DIALECTS }],
    keys: [{ name: "test", group: "default", secret: TEST_KEY }],
  });
}

const contents = new Map<string, Buffer>();

function content(media: Media, size: number): Buffer {
  const name = `${media} ${size}`;
  const found = contents.get(name) ?? createContent(media, size);
  contents.set(name, found);
  return found;
}

/** Text with quotes, line breaks and letters of two and three bytes, or bytes of every value. */
function createContent(media: Media, size: number): Buffer {
  if (media === "text/plain") return Buffer.from('He said: "Grüße, 世界"\\n\n'.repeat(Math.ceil(size / 30)));
  return Buffer.from(Uint8Array.from({ length: size }, (_, at) => (at * 7 + (at >> 8)) & 0xff));
}

function buildRequest(client: Dialect, model: Dialect, media: Media, bytes: Buffer): [string, unknown] {
  const base64 = bytes.toString("base64");
  const url = `data:${media};base64,${base64}`;
  const ask = "What is this?";
  switch (client) {
    case "chat": {
      const part =
        media === "image/png"
          ? { type: "image_url", image_url: { url } }
          : media === "audio/wav"
            ? { type: "input_audio", input_audio: { data: base64, format: "wav" } }
            : { type: "file", file: { filename: "a.txt", file_data: url } };
      const messages = [{ role: "user", content: [{ type: "text", text: ask }, part] }];
      return ["/v1/chat/completions", { model, messages }];
    }
    case "responses": {
      const part =
        media === "image/png"
          ? { type: "input_image", image_url: url }
          : media === "audio/wav"
            ? { type: "input_audio", input_audio: { data: base64, format: "wav" } }
            : { type: "input_file", filename: "a.txt", file_data: url };
      return [
        "/v1/responses",
        { model, input: [{ role: "user", content: [{ type: "input_text", text: ask }, part] }] },
      ];
    }
    case "messages": {
      const type = media === "image/png" ? "image" : "document";
      const source =
        media === "text/plain"
          ? { type: "text", media_type: media, data: bytes.toString() }
          : { type: "base64", media_type: media, data: base64 };
      const messages = [
        {
          role: "user",
          content: [
            { type: "text", text: ask },
            { type, source },
          ],
        },
      ];
      return ["/v1/messages", { model, max_tokens: 16, messages }];
    }
    case "gemini": {
      const parts = [{ text: ask }, { inlineData: { mimeType: media, data: base64 } }];
      return [`/v1beta/models/${model}:generateContent`, { contents: [{ role: "user", parts }] }];
    }
  }
}

/** The result of one request: what the upstream received as media, or the code of the rejection. */
async function send(client: Dialect, model: Dialect, media: Media, bytes: Buffer): Promise<string> {
  const [path, body] = buildRequest(client, model, media, bytes);
  received = "";
  const response = await fetch(`${gateway.url}${path}`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      authorization: `Bearer ${TEST_KEY}`,
      "anthropic-version": "2023-06-01",
    },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (received === "") return `${response.status} ${text.includes("unsupported") ? "unsupported" : text}`;
  const longest = findLongestString(JSON.parse(received));
  const isSame = longest === bytes.toString() || decode(longest).equals(bytes);
  return isSame ? "same bytes" : `${longest.length} other characters: ${longest.slice(0, 60)}`;
}

function findLongestString(value: unknown): string {
  if (typeof value === "string") return value;
  if (typeof value !== "object" || value === null) return "";
  return Object.values(value)
    .map(findLongestString)
    .reduce((longest, one) => (one.length > longest.length ? one : longest), "");
}

function decode(text: string): Buffer {
  return Buffer.from(text.startsWith("data:") ? text.slice(text.indexOf(",") + 1) : text, "base64");
}

const PAIRS = DIALECTS.flatMap((client) =>
  DIALECTS.filter((model) => model !== client).map((model) => [client, model] as const),
);

describe.each(PAIRS)("a %s client on a %s account", (client, model) => {
  test.each(MEDIA)("sends %s of every size unchanged, or is rejected at every size", async (media) => {
    const results: string[] = [];
    for (const size of SIZES) results.push(await send(client, model, media, content(media, size)));
    expect(new Set(results).size, results.join("; ").slice(0, 600)).toBe(1);
    expect(["same bytes", "400 unsupported"]).toContain(results[0] ?? "");
  });
});
