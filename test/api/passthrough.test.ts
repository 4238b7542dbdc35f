/** The gateway forwards bytes unchanged in both directions, except where it must change them. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { type RawMember, rawObject, unknownMembers } from "../support/raw-json.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import { eventsIn } from "../support/sse-text.ts";

const PUBLIC_MODEL = "fast/chat";
const UPSTREAM_MODEL = 'up"stream\\модель';
const RUNS = 300;

/** What the upstream received, and what it returns. */
let received: { bytes: Buffer; headers: Headers } | null = null;
let reply: { type: string; body: string | Uint8Array } = { type: "application/json", body: "{}" };
let upstream: ReturnType<typeof Bun.serve>;
let gateway: RunningGateway;

beforeAll(async () => {
  upstream = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      received = { bytes: Buffer.from(await request.bytes()), headers: request.headers };
      return new Response(reply.body, { headers: { "content-type": reply.type } });
    },
  });
  gateway = await startTestGateway({
    environment: { UPSTREAM_URL: `http://127.0.0.1:${upstream.port}/v1`, UPSTREAM_MODEL },
    file: `
models: [{ id: ${PUBLIC_MODEL}, interfaces: [chat, responses, embeddings, images] }]
accounts:
  - name: mirror
    kind: openai
    base_url: \${UPSTREAM_URL}
    credential: sk-mirror
    private_network: true
    models: { "${PUBLIC_MODEL}": "\${UPSTREAM_MODEL}" }
groups: [{ name: default, models: ["${PUBLIC_MODEL}"], accounts: [mirror] }]
keys: [{ name: test, group: default, secret: ${TEST_KEY} }]
`,
  });
});

afterAll(async () => {
  await gateway.stop();
  await upstream.stop(true);
});

interface Sent {
  status: number;
  text: string;
  body: Buffer;
}

async function send(path: string, body: string | Uint8Array): Promise<Sent> {
  received = null;
  const response = await gateway.call(path, body);
  const text = await response.text();
  return { status: response.status, text, body: bodyReceived() ?? Buffer.alloc(0) };
}

function bodyReceived(): Buffer | null {
  return received?.bytes ?? null;
}

const ENDPOINTS: readonly { path: string; needs: RawMember }[] = [
  {
    path: "/v1/chat/completions",
    needs: { key: '"messages"', value: '[{"role":"user","content":"\\u0048i"}]' },
  },
  {
    path: "/v1/responses",
    needs: { key: '"input"', value: '[ {"role" : "user", "content":"Hi", "model":1e400} ]' },
  },
  { path: "/v1/responses/compact", needs: { key: '"input"', value: '"Hi"' } },
  { path: "/v1/embeddings", needs: { key: '"input"', value: "[[1, 2,3], [4]]" } },
  { path: "/v1/images/generations", needs: { key: '"prompt"', value: '"a\\u0020cat"' } },
  {
    path: "/v1/images/edits",
    needs: { key: '"images"', value: '[{"image_url":"data:image/png;base64,AAAA"}]' },
  },
];

/** Every JSON spelling of the key is the same key. */
const MODEL_KEYS = fc.constantFrom(
  '"model"',
  '"model"',
  '"mod\\u0065l"',
  '"\\u006d\\u006F\\u0064\\u0065\\u006c"',
);
const PUBLIC_SPELLINGS = fc.constantFrom('"fast/chat"', '"fast\\/chat"', '"f\\u0061st/chat"');

function requestsFor(needs: RawMember, more: readonly RawMember[] = []) {
  const prompt = { key: '"prompt"', value: '"x"' };
  const required = needs.key === '"images"' ? [needs, prompt] : [needs];
  return rawObject(
    unknownMembers({ lines: true }).map((unknown) => [...unknown, ...required, ...more]),
    MODEL_KEYS,
    { lines: true },
  );
}

describe("a request", () => {
  test.each(ENDPOINTS)("is forwarded byte for byte except for its model: $path", async ({ path, needs }) => {
    reply = { type: "application/json", body: '{"choices":[],"output":[],"data":[]}' };
    await fc.assert(
      fc.asyncProperty(requestsFor(needs), PUBLIC_SPELLINGS, async (request, spelling) => {
        const { status, text, body } = await send(path, request.with(spelling));
        expect(status, text).toBe(200);
        expect(body.toString()).toBe(request.with(JSON.stringify(UPSTREAM_MODEL)));
      }),
      { numRuns: RUNS },
    );
  });

  test("for a chat stream is unchanged if it sets include_usage itself", async () => {
    reply = {
      type: "text/event-stream",
      body: chatStream('{"choices":[{"index":0,"delta":{"content":"x"}}]}'),
    };
    const asks = [
      { key: '"stream"', value: "true" },
      { key: '"stream_options"', value: '{ "x": 1e400,"include_usage" : true }' },
    ];
    const needs = ENDPOINTS[0]?.needs ?? { key: "", value: "" };
    await fc.assert(
      fc.asyncProperty(requestsFor(needs, asks), async (request) => {
        const { status, text, body } = await send("/v1/chat/completions", request.with('"fast/chat"'));
        expect(status, text).toBe(200);
        expect(body.toString()).toBe(request.with(JSON.stringify(UPSTREAM_MODEL)));
      }),
      { numRuns: RUNS },
    );
  });

  test.each([
    { options: null, responded: '"stream_options":{"include_usage":true},' },
    { options: "null", responded: null },
    { options: '{ "x": 1e400 }', responded: '"include_usage":true,' },
    { options: '{"include_usage": false , "x":1e400}', responded: null },
  ])("for a chat stream gets only include_usage added, case %#", async ({ options, responded }) => {
    reply = {
      type: "text/event-stream",
      body: chatStream('{"choices":[{"index":0,"delta":{"content":"x"}}]}'),
    };
    const asks = [
      { key: '"stream"', value: "true" },
      ...(options === null ? [] : [{ key: '"stream_options"', value: options }]),
    ];
    const needs = ENDPOINTS[0]?.needs ?? { key: "", value: "" };
    await fc.assert(
      fc.asyncProperty(requestsFor(needs, asks), async (request) => {
        const { status, text, body } = await send("/v1/chat/completions", request.with('"fast/chat"'));
        expect(status, text).toBe(200);
        const expected = request.with(JSON.stringify(UPSTREAM_MODEL));
        const arrived = body.toString();
        expect(JSON.parse(arrived).stream_options.include_usage).toBe(true);
        if (responded !== null) expect(arrived.replace(responded, "")).toBe(expected);
        else if (options === "null") {
          expect(arrived.replace('{"include_usage":true}', "null")).toBe(expected);
        } else {
          expect(arrived.replace(/("include_usage": )true/, "$1false")).toBe(expected);
        }
      }),
      { numRuns: RUNS / 3 },
    );
  });

  test("is rejected as malformed only if a strict parser or a documented rule rejects it", async () => {
    reply = { type: "application/json", body: '{"choices":[]}' };
    const needs = ENDPOINTS[0]?.needs ?? { key: "", value: "" };
    let refused = 0;
    await fc.assert(
      fc.asyncProperty(requestsFor(needs), damages(), async (request, damage) => {
        const bytes = damage(Buffer.from(request.with('"fast/chat"')));
        const { status, text, body } = await send("/v1/chat/completions", bytes);
        if (status === 200) {
          // A strict parser sees the same single model.
          if (parsesStrictly(body)) expect(JSON.parse(body.toString()).model).toBe(UPSTREAM_MODEL);
          return;
        }
        const { code } = JSON.parse(text).error;
        if (code !== "invalid_json") return;
        refused++;
        expect(parsesStrictly(bytes), `${text} for ${bytes.toString()}`).toBe(false);
      }),
      { numRuns: RUNS * 4 },
    );
    expect(refused).toBeGreaterThan(RUNS);
  });
});

/** Removes, doubles or replaces one byte, or cuts off the end. */
function damages(): fc.Arbitrary<(bytes: Buffer) => Buffer> {
  return fc
    .record({
      how: fc.constantFrom("delete", "insert", "replace", "cut"),
      where: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      byte: fc.oneof(fc.nat({ max: 255 }), fc.constantFrom(...Buffer.from('{}[]:,"\\ \n-+.eE0"'))),
    })
    .map(({ how, where, byte }) => (bytes: Buffer) => {
      const at = Math.floor(where * bytes.length);
      const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)];
      switch (how) {
        case "delete":
          return Buffer.concat([before, after.subarray(1)]);
        case "insert":
          return Buffer.concat([before, Buffer.from([byte]), after]);
        case "replace":
          return Buffer.concat([before, Buffer.from([byte]), after.subarray(1)]);
        default:
          return before;
      }
    });
}

function parsesStrictly(bytes: Uint8Array): boolean {
  try {
    const value: unknown = JSON.parse(
      new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes),
    );
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

describe("a response", () => {
  const USAGE = { key: '"usage"', value: '{ "prompt_tokens":3,"completion_tokens" : 4, "cost": 1e-400 }' };

  test.each([
    ["/v1/chat/completions", '"choices"'],
    ["/v1/responses", '"output"'],
    ["/v1/embeddings", '"data"'],
    ["/v1/images/generations", '"data"'],
  ])("is delivered byte for byte except for its model: %s", async (path, substance) => {
    const request = `{"model":"fast/chat","messages":["x"],"input":"x","prompt":"x"}`;
    const responses = rawObject(
      unknownMembers({ lines: true }).map((unknown) => [
        ...unknown,
        USAGE,
        { key: substance, value: '[ {"x":1e400} ]' },
      ]),
      MODEL_KEYS,
      { lines: true },
    );
    await fc.assert(
      fc.asyncProperty(responses, async (response) => {
        reply = { type: "application/json", body: response.with('"up-2026-01-01"') };
        const { status, text } = await send(path, request);
        expect(status, text).toBe(200);
        expect(text).toBe(response.with('"fast/chat"'));
      }),
      { numRuns: RUNS },
    );
  });

  test("without a model is delivered unchanged", async () => {
    reply = { type: "application/json", body: ' { "created":1e400, "data" : [ {"b64_json":"AA=="} ] }\n' };
    const { text } = await send("/v1/images/generations", '{"model":"fast/chat","prompt":"x"}');
    expect(text).toBe(String(reply.body));
  });

  test("as a chat stream is delivered byte for byte except for the model", async () => {
    const request = `{"model":"fast/chat","messages":["x"],"stream":true,"stream_options":{"include_usage":true}}`;
    const choices = fc.constantFrom(
      '[{"index":0,"delta":{"content":"x\\u00e9"},"x":1e400,"finish_reason":null}]',
      '[ {"delta" : {"content":"model"}, "index":0} ]',
      '[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\\"model\\":1}"}}]}}]',
    );
    const chunks = rawObject(
      fc
        .tuple(unknownMembers({ lines: false }), choices)
        .map(([unknown, value]) => [...unknown, { key: '"choices"', value }]),
      MODEL_KEYS,
      { lines: false },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(chunks, { minLength: 1, maxLength: 5 }), async (all) => {
        reply = {
          type: "text/event-stream",
          body: chatStream(...all.map((chunk) => chunk.with('"up-2026-01-01"').trim())),
        };
        const { status, text } = await send("/v1/chat/completions", request);
        expect(status, text).toBe(200);
        expect(eventsIn(text).map(({ data }) => data)).toEqual([
          ...all.map((chunk) => chunk.with('"fast/chat"').trim()),
          "[DONE]",
        ]);
      }),
      { numRuns: RUNS },
    );
  });

  test("as a Responses stream is delivered byte for byte except for the model", async () => {
    const request = `{"model":"fast/chat","input":"x","stream":true,"store":false}`;
    const responses = rawObject(unknownMembers({ lines: false }), MODEL_KEYS, { lines: false });
    const deltas = unknownMembers({ lines: false }).map(
      (members) =>
        `{"type":"response.output_text.delta", "delta":"x"${members.map(({ key, value }) => `, ${key} :${value}`).join("")}}`,
    );
    await fc.assert(
      fc.asyncProperty(responses, deltas, async (response, delta) => {
        const events = (model: string): [type: string, data: string][] => [
          ["response.created", `{"type":"response.created" , "response":${response.with(model)}, "x":1e400}`],
          ["response.output_text.delta", delta],
          ["response.completed", `{"response":${response.with(model)},"type" : "response.completed"}`],
        ];
        reply = {
          type: "text/event-stream",
          body: events('"up-2026-01-01"')
            .map(([type, data]) => `event: ${type}\ndata: ${data}\n\n`)
            .join(""),
        };
        const { status, text } = await send("/v1/responses", request);
        expect(status, text).toBe(200);
        expect(eventsIn(text).map(({ type, data }) => [type, data])).toEqual([
          ...events('"fast/chat"'),
          [null, "[DONE]"],
        ]);
      }),
      { numRuns: RUNS },
    );
  });
});

function chatStream(...chunks: string[]): string {
  return [...chunks, "[DONE]"].map((data) => `data: ${data}\n\n`).join("");
}

describe("a form", () => {
  const BOUNDARY = "----form-boundary-7MA4YWxkTrZu0gW";

  interface Part {
    head: string;
    content: Uint8Array;
  }

  function field(name: string, value: string): Part {
    return { head: `Content-Disposition: form-data; name="${name}"`, content: Buffer.from(value) };
  }

  function file(name: string, content: Uint8Array): Part {
    return {
      head: `content-disposition: form-data; name="${name}"; filename="ä;b.png"\r\nContent-Type: image/png`,
      content,
    };
  }

  function form(parts: readonly Part[]): Buffer {
    return Buffer.concat([
      ...parts.flatMap(({ head, content }) => [
        Buffer.from(`--${BOUNDARY}\r\n${head}\r\n\r\n`),
        content,
        Buffer.from("\r\n"),
      ]),
      Buffer.from(`--${BOUNDARY}--\r\n`),
    ]);
  }

  async function expectPassed(parts: (model: string) => Part[]): Promise<void> {
    reply = { type: "application/json", body: '{"created":1,"data":[{"b64_json":"AA=="}]}' };
    received = null;
    const contentType = `multipart/form-data; boundary=${BOUNDARY}`;
    const response = await gateway.call("/v1/images/edits", form(parts(PUBLIC_MODEL)), {
      headers: { "content-type": contentType },
    });
    expect(response.status, await response.text()).toBe(200);
    const expected = form(parts(UPSTREAM_MODEL));
    const arrived = bodyReceived() ?? Buffer.alloc(0);
    expect(arrived.length).toBe(expected.length);
    expect(sha256(arrived)).toBe(sha256(expected));
  }

  test("is forwarded byte for byte except for its model", async () => {
    const binary = fc.uint8Array({ maxLength: 300 });
    await fc.assert(
      fc.asyncProperty(binary, binary, binary, fc.nat({ max: 5 }), async (one, two, mask, place) => {
        await expectPassed((model) => {
          const parts = [
            file("image[]", one),
            file("image[]", two),
            file("mask", mask),
            field("prompt", "größer\r\nund model"),
            field("x-unknown", "1e400"),
          ];
          return parts.toSpliced(place, 0, field("model", model));
        });
      }),
      { numRuns: 60 },
    );
  });

  test("too large for memory is forwarded the same way, with its Content-Length", async () => {
    const picture = new Uint8Array(7_000_000);
    for (let at = 0; at < picture.length; at += 65_536) {
      crypto.getRandomValues(picture.subarray(at, Math.min(at + 65_536, picture.length)));
    }
    await expectPassed((model) => [
      file("image", picture),
      field("model", model),
      field("prompt", "x"),
      file("mask", picture.subarray(0, 1_000_000)),
    ]);
    expect(received?.headers.get("content-type")).toBe(`multipart/form-data; boundary=${BOUNDARY}`);
    expect(Number(received?.headers.get("content-length"))).toBeGreaterThan(8_000_000);
  });
});

function sha256(bytes: Uint8Array): string {
  return new Bun.CryptoHasher("sha256").update(bytes).digest("hex");
}
