import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { joinParts } from "../../base/parts.ts";
import { ApiError } from "../../errors.ts";
import { ENDPOINTS } from "../endpoints.ts";
import { COUNT_TOKENS_ENDPOINT } from "../messages/messages-endpoints.ts";
import type { EndpointName as AnyEndpointName } from "./endpoint.ts";
import { ROUTING_FIELDS } from "./json-body.ts";
import { readJsonRequest } from "./json-request.ts";
import type { ModelRequest } from "./request.ts";
import { TOOL_MEMBER_NAMES } from "./tool-kinds.ts";

/** Gemini's bodies have a separate reader. */
type EndpointName = Exclude<AnyEndpointName, `gemini.${string}`>;

const LIMITS = { depthMax: 16, modelNameCharsMax: 32 };
const utf8 = new TextEncoder();
const HEAD = Buffer.from('POST /v1 HTTP/1.1\r\nauthorization: Bearer k\xe9y\r\n{"model":"\r\n\r\n', "latin1");

/** The minimal body of each endpoint. */
const LEAST: Readonly<Record<EndpointName, Record<string, unknown>>> = {
  responses: { model: "m", input: "hi" },
  "responses.compact": { model: "m", input: "hi" },
  "responses.input_tokens": { model: "m", input: "hi" },
  "chat.completions": { model: "m", messages: [{ role: "user", content: "hi" }] },
  messages: { model: "m", messages: [{ role: "user", content: "hi" }], max_tokens: 100 },
  "messages.count_tokens": { model: "m", messages: [{ role: "user", content: "hi" }] },
  embeddings: { model: "m", input: "hi" },
  "images.generations": { model: "m", prompt: "a cat" },
  "images.edits": { model: "m", prompt: "a cat" },
};

/** Fields that the gateway reads. `__proto__` is excluded because a comparison by spreading would lose it. */
const ROUTING = new Set<string>([...ROUTING_FIELDS, "__proto__"]);

function read(endpoint: EndpointName, body: string | Uint8Array): ModelRequest {
  const found = [...ENDPOINTS, COUNT_TOKENS_ENDPOINT].find(({ name }) => name === endpoint);
  if (!found) throw new Error(`no endpoint ${endpoint}`);
  // As received: after the head, which may contain a byte that is not UTF-8.
  const bytes = Buffer.concat([HEAD, typeof body === "string" ? utf8.encode(body) : body]);
  return readJsonRequest({ bytes, start: HEAD.length, end: bytes.length }, found, LIMITS);
}

function readWith(endpoint: EndpointName, change: Record<string, unknown>): ModelRequest {
  return read(endpoint, JSON.stringify({ ...LEAST[endpoint], ...change }));
}

/** The error code and parameter of a rejected body, or null. */
function rejection(endpoint: EndpointName, body: string | Uint8Array): string | null {
  try {
    read(endpoint, body);
    return null;
  } catch (thrown) {
    if (!(thrown instanceof ApiError)) throw thrown;
    expect(thrown.status).toBe(400);
    return thrown.param === null ? thrown.code : `${thrown.code}: ${thrown.param}`;
  }
}

function rejectionWith(endpoint: EndpointName, change: Record<string, unknown>): string | null {
  return rejection(endpoint, JSON.stringify({ ...LEAST[endpoint], ...change }));
}

function catchMessage(endpoint: EndpointName, body: string): string {
  try {
    read(endpoint, body);
    return "";
  } catch (thrown) {
    return thrown instanceof ApiError ? thrown.message : String(thrown);
  }
}

async function sent(request: ModelRequest, upstreamModel = "up"): Promise<string> {
  const content = request.body.forUpstream(upstreamModel);
  if ("open" in content) throw new Error("a JSON body is in memory");
  return new TextDecoder().decode(joinParts(content));
}

const ALL = Object.keys(LEAST) as EndpointName[];
const RESPONSES = ALL.filter((name) => name.startsWith("responses"));

describe("required fields", () => {
  test.each(ALL)("%s accepts its minimal body", (endpoint) => {
    expect(rejectionWith(endpoint, {})).toBeNull();
    expect(readWith(endpoint, {})).toMatchObject({ publicModel: "m", stream: false, choices: 1 });
  });

  test.each(ALL)("%s needs a model", (endpoint) => {
    expect(rejectionWith(endpoint, { model: undefined })).toBe("missing_required_parameter: model");
    expect(rejectionWith(endpoint, { model: null })).toBe("missing_required_parameter: model");
  });

  test.each([
    ["chat.completions", "messages"],
    ["embeddings", "input"],
    ["images.generations", "prompt"],
    ["images.edits", "prompt"],
    ["responses", "input"],
    ["responses.compact", "input"],
    ["responses.input_tokens", "input"],
  ] as const)("%s needs %s", (endpoint, field) => {
    expect(rejectionWith(endpoint, { [field]: undefined })).toBe(`missing_required_parameter: ${field}`);
    expect(rejectionWith(endpoint, { [field]: null })).toBe(`missing_required_parameter: ${field}`);
    expect(rejectionWith(endpoint, { [field]: 7 })).toBe(`invalid_type: ${field}`);
    expect(rejectionWith(endpoint, { [field]: {} })).toBe(`invalid_type: ${field}`);
  });

  test.each(RESPONSES)(
    "%s needs no input if it continues a conversation or uses a stored prompt",
    (endpoint) => {
      for (const earlier of [
        { previous_response_id: "resp_1" },
        { conversation: "c" },
        { prompt: { id: "p" } },
      ]) {
        expect(rejectionWith(endpoint, { input: undefined, ...earlier })).toBeNull();
        expect(rejectionWith(endpoint, { input: 7, ...earlier })).toBe("invalid_type: input");
      }
      expect(rejectionWith(endpoint, { input: undefined, previous_response_id: null })).toBe(
        "missing_required_parameter: input",
      );
    },
  );

  test("embeddings accept tokens as well as texts", () => {
    for (const input of ["a", ["a", "b"], [1, 2], [[1], [2]]]) {
      expect(rejectionWith("embeddings", { input })).toBeNull();
    }
  });

  test("a chat without messages is rejected", () => {
    expect(rejectionWith("chat.completions", { messages: [] })).toBe("invalid_value: messages");
    expect(rejection("chat.completions", '{"model":"m","messages":[ \n\t]}')).toBe("invalid_value: messages");
  });
});

describe("types", () => {
  test("a model is a string", () => {
    for (const model of [7, true, [], {}]) {
      expect(rejectionWith("chat.completions", { model })).toBe("invalid_type: model");
    }
  });

  test("a model name has at least one character and at most the allowed number", () => {
    expect(rejectionWith("embeddings", { model: "" })).toBe("invalid_value: model");
    expect(rejectionWith("embeddings", { model: "x".repeat(33) })).toBe("invalid_value: model");
    expect(readWith("embeddings", { model: "é".repeat(32) }).publicModel).toBe("é".repeat(32));
  });

  test("an escaped model name is decoded", () => {
    expect(read("embeddings", '{"m\\u006fdel":"a\\u002fb","input":""}').publicModel).toBe("a/b");
  });

  test.each(["embeddings", "responses.compact", "responses.input_tokens"] as const)(
    "%s is never streamed",
    (endpoint) => {
      expect(rejectionWith(endpoint, { stream: true })).toBe("unsupported_parameter: stream");
      expect(readWith(endpoint, { stream: false }).stream).toBe(false);
    },
  );

  test("a background response must be stored", () => {
    expect(rejectionWith("responses", { background: true, store: false })).toBe("invalid_value: background");
    for (const store of [true, null]) {
      expect(readWith("responses", { background: true, store }).background).toBe(true);
    }
    expect(readWith("responses", { background: false, store: false }).background).toBe(false);
  });

  test("the background of an image is a parameter of the images API", () => {
    expect(readWith("images.generations", { prompt: "A cat", background: "opaque" }).background).toBe(false);
  });

  test("stream and background are booleans, and null means false", () => {
    for (const field of ["stream", "background"]) {
      expect(rejectionWith("responses", { [field]: "true" })).toBe(`invalid_type: ${field}`);
      expect(rejectionWith("responses", { [field]: 1 })).toBe(`invalid_type: ${field}`);
      expect(rejectionWith("responses", { [field]: null })).toBeNull();
    }
    expect(readWith("responses", { stream: true, background: true })).toMatchObject({
      stream: true,
      background: true,
    });
    expect(readWith("responses", { stream: null, background: false })).toMatchObject({
      stream: false,
      background: false,
    });
  });

  test("n is an integer from 1 to 128", () => {
    expect(readWith("chat.completions", { n: 3 }).choices).toBe(3);
    expect(readWith("chat.completions", { n: null }).choices).toBe(1);
    expect(rejectionWith("chat.completions", { n: 0 })).toBe("invalid_value: n");
    expect(rejectionWith("chat.completions", { n: -1 })).toBe("invalid_value: n");
    expect(rejectionWith("chat.completions", { n: 129 })).toBe("invalid_value: n");
    expect(rejectionWith("chat.completions", { n: 1.5 })).toBe("invalid_type: n");
    expect(rejectionWith("chat.completions", { n: "2" })).toBe("invalid_type: n");
  });

  test("previous_response_id is a string", () => {
    expect(readWith("responses", { previous_response_id: "resp_1" }).previousResponseId).toBe("resp_1");
    expect(readWith("responses", { previous_response_id: null }).previousResponseId).toBeNull();
    expect(rejectionWith("responses", { previous_response_id: 7 })).toBe(
      "invalid_type: previous_response_id",
    );
  });

  test("the message contains the expected and the actual type", () => {
    expect(catchMessage("embeddings", '{"model":"m","input":7}')).toBe(
      "Invalid type for `input`: expected a string or an array, got a number.",
    );
    expect(catchMessage("embeddings", '{"model":"m"}')).toBe(
      "Missing required parameter: `input` (a string or an array).",
    );
    expect(catchMessage("embeddings", '{"model":{},"input":""}')).toBe(
      "Invalid type for `model`: expected a string, got an object.",
    );
    expect(catchMessage("embeddings", '{"model":true,"input":""}')).toBe(
      "Invalid type for `model`: expected a string, got a boolean.",
    );
  });

  test("a model name with a raw control character is rejected as invalid JSON", () => {
    expect(rejection("embeddings", '{"model":"a\u0001b","input":""}')).toBe("invalid_json: model");
  });
});

describe("bodies that are not one valid JSON object", () => {
  test.each([
    ["an empty body", ""],
    ["an array", "[]"],
    ["a string", '"model"'],
    ["a truncated object", '{"model":"m","input":"hi"'],
    ["a second object", '{"model":"m","input":"hi"}{}'],
    ["a trailing comma", '{"model":"m","input":"hi",}'],
    ["single quotes", "{'model':'m'}"],
    ["NaN", '{"model":"m","input":NaN}'],
    ["a byte order mark", '\ufeff{"model":"m","input":"hi"}'],
  ])("%s is rejected", (_, body) => {
    expect(rejection("embeddings", body)).toBe("invalid_json");
  });

  test("invalid UTF-8 is rejected at any position", () => {
    const body = utf8.encode('{"model":"m","input":"x"}');
    body[body.length - 3] = 0xff;
    expect(rejection("embeddings", body)).toBe("invalid_json");
  });

  test("the message contains the position of the error and at most one character of the body", () => {
    expect(catchMessage("embeddings", '{"model":"m",\n  "input" "hi"}')).toBe(
      "The request body is not a valid JSON object: line 2, column 11: expected ':' after the key, found '\"'.",
    );
  });

  test("nesting is allowed up to the limit", () => {
    const nested = (levels: number) => `{"model":"m","input":${"[".repeat(levels)}${"]".repeat(levels)}}`;
    expect(rejection("embeddings", nested(LIMITS.depthMax - 1))).toBeNull();
    expect(rejection("embeddings", nested(LIMITS.depthMax))).toBe("invalid_json");
  });

  test("ten megabytes of brackets are rejected by the nesting limit", () => {
    expect(rejection("embeddings", `{"model":"m","input":${"[".repeat(10_000_000)}`)).toBe("invalid_json");
  });

  test.each([
    "model",
    "stream",
    "stream_options",
    "n",
    "input",
    "messages",
    "store",
    "previous_response_id",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    ...TOOL_MEMBER_NAMES,
  ])("%s may appear once only", (field) => {
    const twice = `{"model":"m","input":"hi","${field}":null,"x":1,"${field}":null}`;
    expect(rejection("embeddings", twice)).toBe(`duplicate_parameter: ${field}`);
  });

  test("a repeated field is detected in any spelling", () => {
    expect(rejection("embeddings", '{"model":"m","input":"hi","\\u006dodel":"other"}')).toBe(
      "duplicate_parameter: model",
    );
  });

  test("fields that the gateway does not read may repeat", () => {
    expect(rejection("embeddings", '{"model":"m","input":"hi","user":"a","user":"b"}')).toBeNull();
  });

  test("a repeated include_usage is rejected", () => {
    const body =
      '{"model":"m","messages":[1],"stream":true,"stream_options":{"include_usage":true,"include_usage":false}}';
    expect(rejection("chat.completions", body)).toBe("duplicate_parameter: stream_options");
  });

  test("stream_options is an object", () => {
    expect(rejectionWith("chat.completions", { stream: true, stream_options: true })).toBe(
      "invalid_type: stream_options",
    );
  });
});

describe("usage of a chat stream", () => {
  const stream = (body: Record<string, unknown>) => readWith("chat.completions", { stream: true, ...body });

  test("is forced if the client did not request it, and then hidden", async () => {
    for (const asked of [undefined, null, {}, { include_usage: false }, { include_usage: null }]) {
      const request = stream({ stream_options: asked });
      expect(request.hidesUsage).toBe(true);
      expect(JSON.parse(await sent(request)).stream_options).toEqual({ include_usage: true });
    }
  });

  test("is unchanged if the client requested it", async () => {
    const request = stream({ stream_options: { include_usage: true } });
    expect(request.hidesUsage).toBe(false);
    expect(await sent(request, "m")).toBe(
      JSON.stringify({ ...LEAST["chat.completions"], stream: true, stream_options: { include_usage: true } }),
    );
  });

  test("leaves other stream options unchanged", async () => {
    const request = stream({ stream_options: { include_obfuscation: false } });
    expect(JSON.parse(await sent(request)).stream_options).toEqual({
      include_usage: true,
      include_obfuscation: false,
    });
  });

  test("is not requested without a stream or outside of chat", async () => {
    expect(await sent(readWith("chat.completions", {}), "m")).toBe(JSON.stringify(LEAST["chat.completions"]));
    const request = readWith("responses", { stream: true });
    expect(request.hidesUsage).toBe(false);
    expect(await sent(request, "m")).toBe(JSON.stringify({ ...LEAST.responses, stream: true }));
  });
});

test("base64 embeddings are requested by encoding_format of an embeddings request only", () => {
  expect(readWith("embeddings", { encoding_format: "base64" }).wantsBase64).toBe(true);
  for (const encoding_format of ["float", "hex", null, 64, undefined]) {
    expect(readWith("embeddings", { encoding_format }).wantsBase64).toBe(false);
  }
  expect(readWith("chat.completions", { encoding_format: "base64" }).wantsBase64).toBe(false);
});

describe("stored responses", () => {
  test("a response is stored upstream unless the client sets store to false", () => {
    expect(readWith("responses", {}).storesResponse).toBe(true);
    expect(readWith("responses", { store: null }).storesResponse).toBe(true);
    expect(readWith("responses", { store: true }).storesResponse).toBe(true);
    expect(readWith("responses", { store: false }).storesResponse).toBe(false);
  });

  test("only responses are stored", () => {
    for (const endpoint of ALL.filter((name) => name !== "responses")) {
      expect(readWith(endpoint, {}).storesResponse).toBe(false);
    }
  });
});

describe("the upstream request body", () => {
  test("can be sent to several accounts, each with its own upstream model", async () => {
    const request = readWith("embeddings", {});
    expect(JSON.parse(await sent(request, 'a "b"')).model).toBe('a "b"');
    expect(JSON.parse(await sent(request, "c")).model).toBe("c");
  });

  test("keeps big numbers, whitespace, key order and unknown fields", async () => {
    const body =
      '{ "zeta":123456789012345678901234567890,\t"model" : "m","big":1e999,"input":"\\u00e9\\ud83d","__proto__":{"a":1},"a":-0.0 }';
    expect(await sent(read("embeddings", body), "up")).toBe(body.replace('"m"', '"up"'));
  });

  test("knows which words the client sent", () => {
    const { body } = read("embeddings", '{"model":"m","input":"my-tool_42"}');
    expect(body.mentions("my-tool_42")).toBe(true);
    expect(body.mentions("other")).toBe(false);
    // The word is in the head.
    expect(body.mentions("Bearer")).toBe(false);
    expect(body.contentType).toBe("application/json");
  });

  const json = fc.jsonValue({ maxDepth: 4, stringUnit: "binary" });
  const spacing = fc.constantFrom("", " ", "\n", "\t ", "\r\n");
  const streamOptions = fc.constantFrom(
    undefined,
    null,
    {},
    { include_usage: true },
    { include_usage: false, other: [1, "}"] },
    { other: { include_usage: false } },
  );
  const others = fc.dictionary(
    fc.string({ unit: "binary" }).filter((name) => !ROUTING.has(name)),
    json,
    { maxKeys: 5, noNullPrototype: true },
  );

  /** An object as text, with its members in any order and any spacing. */
  function written(members: Record<string, unknown>, order: number[], space: string): string {
    const parts = Object.entries(members)
      .filter(([, value]) => value !== undefined)
      .map(([name, value], i) => ({
        rank: order[i % order.length] ?? 0,
        text: `${space}${JSON.stringify(name)}${space}:${space}${JSON.stringify(value)}${space}`,
      }))
      .sort((a, b) => a.rank - b.rank);
    return `${space}{${parts.map(({ text }) => text).join(",")}}${space}`;
  }

  test("is the received body byte for byte, except for model and include_usage", async () => {
    await fc.assert(
      fc.asyncProperty(
        others,
        fc.boolean(),
        streamOptions,
        fc.array(fc.nat(), { minLength: 1, maxLength: 8 }),
        spacing,
        fc.string({ unit: "binary", minLength: 1, maxLength: 20 }),
        async (unknown, stream, options, order, space, upstreamModel) => {
          const members = {
            ...unknown,
            model: "m",
            messages: [{ role: "user" }],
            stream,
            stream_options: options,
          };
          const body = written(members, order, space);
          const out = await sent(read("chat.completions", body), upstreamModel);
          const asked = JSON.parse(body);
          const forced = stream ? { stream_options: { ...options, include_usage: true } } : {};
          expect(JSON.parse(out)).toEqual({
            ...asked,
            ...forced,
            model: JSON.parse(JSON.stringify(upstreamModel)),
          });
          // Reverting the insertion must give exactly the received text.
          const model = `"model"${space}:${space}`;
          const restored = out.replace(model + JSON.stringify(upstreamModel), () => `${model}"m"`);
          const without = [
            restored,
            restored.replace('"stream_options":{"include_usage":true},', ""),
            restored.replace('"include_usage":true,', ""),
            restored.replace('"include_usage":true', ""),
            restored.replace('"include_usage":true', '"include_usage":false'),
            restored.replace('{"include_usage":true}', "null"),
          ];
          expect(without).toContain(body);
        },
      ),
      { numRuns: 300 },
    );
  });

  test("no text makes the reader throw anything but an ApiError", () => {
    const parts = fc.constantFrom(
      ...[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        '"',
        "\\",
        '"model"',
        '"messages"',
        '"stream"',
        '"m"',
        "1",
        "true",
        "null",
        " ",
      ],
    );
    fc.assert(
      fc.property(fc.array(parts, { maxLength: 20 }), (texts) => {
        rejection("chat.completions", texts.join(""));
      }),
    );
    fc.assert(fc.property(fc.uint8Array(), (bytes) => void rejection("chat.completions", bytes)));
  });
});

test("an image is not counted by its bytes when tokens are estimated", () => {
  const picture = `data:image/png;base64,${"A".repeat(4_000_000)}`;
  const withPicture = JSON.stringify({
    model: "m",
    max_tokens: 100,
    messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: picture } }] }],
  });
  const tokensEstimate = read("chat.completions", withPicture).tokensEstimate();
  expect(tokensEstimate).toBeGreaterThan(1_000);
  expect(tokensEstimate).toBeLessThan(2_000);
});

test.each([
  ["chat.completions", { reasoning_effort: "high" }, "high"],
  ["chat.completions", { reasoning: { max_tokens: 5, effort: "low" } }, "low"],
  ["chat.completions", { reasoning_effort: null }, null],
  ["responses", { reasoning: { effort: "minimal", summary: "auto" } }, "minimal"],
  ["responses", { reasoning: { effort: 3 } }, null],
  ["responses", { reasoning: "high" }, null],
  ["responses", {}, null],
] as const)("the reasoning effort of %s with %p is %p", (name, fields, effort) => {
  const body = JSON.stringify({ ...LEAST[name], model: "m", ...fields });
  expect(read(name, body).reasoningEffort()).toBe(effort);
});

test("the token estimate counts the output limit once per choice", () => {
  const estimate = (more: object) => {
    const body = JSON.stringify({
      model: "m",
      messages: [{ role: "user", content: "hi" }],
      max_tokens: 1_000,
      ...more,
    });
    return read("chat.completions", body).tokensEstimate();
  };
  expect(estimate({ n: 8 }) - estimate({})).toBeGreaterThanOrEqual(7_000);
});
