import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { joinParts, wholePart } from "../base/parts.ts";
import { responseBounds } from "../count-limits.ts";
import { lookUpEndpoint } from "./endpoints.ts";
import type { EndpointName } from "./shared/endpoint.ts";
import { type Audience, UNKNOWN_ERROR } from "./shared/upstream-error.ts";
import { isEmptyResponse, readWholeResponse } from "./whole-response.ts";

const AUDIENCE = {
  publicModel: "fast",
  upstreamModel: "gpt-6-eu-0419",
  account: null,
  mentions: () => false,
};

function read(endpoint: EndpointName, body: unknown, audience: Audience = AUDIENCE) {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  // As received: after the head, and before other data that was read.
  const bytes = Buffer.from(`HTTP/1.1 200 OK {"model":"\r\n\r\n${text}}}`);
  const end = bytes.length - 2;
  return readWholeResponse(
    { bytes, start: end - Buffer.byteLength(text), end },
    lookUpEndpoint(endpoint),
    audience,
    32,
  );
}

function respond(endpoint: EndpointName, body: unknown, audience: Audience = AUDIENCE) {
  const found = read(endpoint, body, audience);
  if (found.kind !== "response") throw new Error(`expected an answer, got ${found.kind}`);
  return { ...found, text: new TextDecoder().decode(joinParts(found.body)) };
}

/** More values than are parsed at once. */
const LONG = Array.from({ length: responseBounds.eventValuesMax + 1 }, () => 0);

const USAGE = { prompt_tokens: 3, completion_tokens: 4 };

describe("a whole response", () => {
  test("shows nothing of an error that is too long to be read", () => {
    const error = { message: "org-secret", x: LONG };
    for (const body of [{ choices: [{ error }] }, { choices: [], x_groq: { error } }]) {
      const { text } = respond("chat.completions", body);
      expect(text).toContain('{"code":"server_error","message":"The model failed to respond."}');
      expect(text).not.toContain("org-secret");
    }
    expect(read("chat.completions", { error })).toEqual({ kind: "error", error: UNKNOWN_ERROR });
  });

  test("has no usage if the report is too long to be one, and is not empty if it is too long to be parsed", () => {
    expect(respond("chat.completions", { choices: [], usage: { ...USAGE, x: LONG } }).usage).toBeNull();
    expect(isEmptyResponse(wholePart(Buffer.from(JSON.stringify({ choices: [], x: LONG }))))).toBe(false);
  });

  test("is not joined to find out whether it is empty", () => {
    const image = Buffer.alloc(100 * 1024 * 1024, "a");
    const body = ['{"choices":[],"image":"', image, '"}'].flatMap((part) => wholePart(Buffer.from(part)));
    const before = process.cpuUsage();
    expect(isEmptyResponse(body)).toBe(false);
    const { user, system } = process.cpuUsage(before);
    expect((user + system) / 1_000).toBeLessThan(50);
  });

  test("has the queries of candidates that are too long to be parsed", () => {
    const candidate = { groundingMetadata: { webSearchQueries: ["a", "b"] }, logprobsResult: LONG };
    const body = {
      candidates: [candidate, 1, {}],
      usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1 },
      modelVersion: "gemini-3-pro",
    };
    expect(respond("gemini.generate_content", body).usage?.webSearches).toBe(2);
  });

  test("has the public model instead of the upstream model, and is otherwise unchanged", () => {
    const body = '{ "id":"x", "model" : "gpt-6-eu-0419",\n"big":12345678901234567890, "a":1.0, "a":2 }';
    expect(respond("chat.completions", body).text).toBe(body.replace("gpt-6-eu-0419", "fast"));
  });

  test.each([
    [{ code: "rate_limit", message: "Account acct-77 of org-secret is out of credits" }, "rate_limit"],
    [{ code: 502, message: "host up-3.internal went away", metadata: { raw: "org-secret" } }, "server_error"],
  ])("shows of a failed choice only its code and a public message", (error, code) => {
    const body = {
      choices: [
        { index: 0, message: { content: "hi" }, error },
        { index: 1, error: null },
      ],
    };
    const { text } = respond("chat.completions", body);
    expect(text).not.toContain("org-secret");
    expect(text).not.toContain("up-3.internal");
    expect(JSON.parse(text).choices).toEqual([
      { index: 0, message: { content: "hi" }, error: { code, message: expect.any(String) } },
      { index: 1, error: null },
    ]);
  });

  test("redacts Groq's own errors, and keeps the last of duplicate errors of a choice", () => {
    const groq = { choices: [], x_groq: { id: "req_1", error: "org-secret is over capacity" } };
    expect(JSON.parse(respond("chat.completions", groq).text).x_groq.error).not.toContain("org-secret");
    const twice = (last: string) =>
      `{"choices":[{"index":0,"error":{"message":"org-secret"},"error":${last}}, {"index":1}]}`;
    expect(respond("chat.completions", twice("null")).text).toBe(
      '{"choices":[{"index":0,"error":null}, {"index":1}]}',
    );
    const { text } = respond("chat.completions", twice('"org-secret"'));
    expect(JSON.parse(text).choices[0]).toEqual({
      index: 0,
      error: expect.not.stringContaining("org-secret"),
    });
  });

  test.each(["null", "false", '""', "{}"])("with the choice error %s is unchanged", (none) => {
    const body = `{"choices":[{"index":0,"error":${none}}],"x_groq":{"error":${none}},"x_groq":7}`;
    expect(respond("chat.completions", body).text).toBe(body);
  });

  test("of Responses has its error as an object, whatever the upstream sent", () => {
    const { text } = respond("responses", {
      status: "failed",
      output: [],
      error: "org-secret is over capacity",
    });
    expect(JSON.parse(text).error).toEqual({ code: "server_error", message: expect.any(String) });
    expect(text).not.toContain("org-secret");
  });

  test("with the word error in its content is unchanged", () => {
    const body = '{"choices":[{"message":{"content":"an \\"error\\"","error":"mine"}}],"error":null}';
    expect(respond("chat.completions", body).text).toBe(body);
  });

  test("loses its byte order mark", () => {
    const body = '{"choices":[]}';
    expect(respond("chat.completions", `\ufeff${body}`).text).toBe(body);
  });

  test("without a model is sent without one", () => {
    const body = '{"created":1,"data":[]}';
    expect(respond("images.generations", body).text).toBe(body);
  });

  test.each([
    ["chat.completions", { choices: [] }],
    ["responses", { output: [] }],
    ["responses.compact", { output: [] }],
    ["responses.input_tokens", { input_tokens: 0 }],
    ["embeddings", { data: [] }],
    ["images.generations", { data: [] }],
    ["images.edits", { data: [] }],
  ] as const)("of %s is complete with the field that such responses must have", (endpoint, substance) => {
    expect(respond(endpoint, { id: "x", ...substance }).hasExpectedContent).toBe(true);
    expect(respond(endpoint, { object: "error", message: "m" }).hasExpectedContent).toBe(false);
    expect(respond(endpoint, { status: "error", detail: "m" }).hasExpectedContent).toBe(false);
  });

  test("has its usage", () => {
    expect(respond("chat.completions", { model: "m", usage: USAGE }).usage).toMatchObject({
      inputTokens: 3,
      outputTokens: 4,
    });
    expect(respond("chat.completions", { model: "m" }).usage).toBeNull();
    expect(respond("chat.completions", { model: "m", usage: null }).usage).toBeNull();
  });

  test("of images has the number of images", () => {
    const data = [{ b64_json: 'x"{}[{' }, { url: "u", more: [{}, { a: {} }] }, { b64_json: "\\" }];
    expect(respond("images.generations", { data }).images).toBe(3);
    expect(respond("images.edits", { data: [] }).images).toBe(0);
    expect(respond("images.edits", {}).images).toBe(0);
    expect(respond("embeddings", { data }).images).toBe(0);
  });

  test("of images has the kind of its images, and no other response does", () => {
    const told = { created: 1, size: "1024x1024", quality: "high", data: [{ b64_json: "x" }] };
    expect(respond("images.edits", told).imageKind).toBe("1024x1024/high");
    expect(respond("images.edits", { data: [] }).imageKind).toBeNull();
    expect(respond("chat.completions", told).imageKind).toBeNull();
  });

  test("counts images correctly for any content", () => {
    const image = fc.record({
      b64_json: fc.string({ unit: "binary" }),
      other: fc.jsonValue({ maxDepth: 2 }),
    });
    fc.assert(
      fc.property(fc.array(image, { maxLength: 4 }), (data) => {
        expect(respond("images.generations", { created: 1, data }).images).toBe(data.length);
      }),
    );
  });

  test("of the Responses API has its id and status", () => {
    const found = respond("responses", { id: "resp_1", status: "queued", model: "m" });
    expect(found).toMatchObject({ responseId: "resp_1", status: "queued" });
  });

  test("of another API has neither, whatever its id is", () => {
    const found = respond("chat.completions", { id: "chatcmpl-1", status: "queued" });
    expect(found).toMatchObject({ responseId: null, status: null });
    expect(respond("responses.compact", { id: "resp_1" }).responseId).toBeNull();
  });
});

describe("embeddings", () => {
  const NUMBERS =
    '{"object":"list", "data":[ {"object":"embedding","embedding":[0.1, -2.5e0,3e-8],"index":1,"x":1e400},' +
    '{"embedding" : [],"index":0}, {"index":2}, 7 ],"model":"gpt-6-eu-0419","usage":{"prompt_tokens":3}}';

  test("are converted to base64 if requested, and every other byte is unchanged", () => {
    const packed = respond("embeddings", NUMBERS, { ...AUDIENCE, wantsBase64: true });
    const floats = Buffer.alloc(12);
    [0.1, -2.5, 3e-8].forEach((value, index) => void floats.writeFloatLE(value, 4 * index));
    expect(packed.text).toBe(
      NUMBERS.replace("[0.1, -2.5e0,3e-8]", `"${floats.toString("base64")}"`)
        .replace("[]", '""')
        .replace("gpt-6-eu-0419", "fast"),
    );
    expect(packed.usage).toMatchObject({ inputTokens: 3 });
  });

  test("stay numbers if base64 was not requested", () => {
    expect(respond("embeddings", NUMBERS).text).toBe(NUMBERS.replace("gpt-6-eu-0419", "fast"));
  });

  test.each([
    ["encoded already", '{"data":[{"embedding":"AACAPw=="},{"embedding":[1]}]}'],
    ["not vectors", '{"data":[{"embedding":[1,null]},{"embedding":[[1]]},{"embedding":{}}]}'],
    ["missing", '{"data":[]}'],
    ["not a list", '{"data":{"embedding":[1]}}'],
  ])("that are %s are unchanged", (_, body) => {
    expect(respond("embeddings", body, { ...AUDIENCE, wantsBase64: true }).text).toBe(body);
  });
});

describe("a failed response", () => {
  const failed = (error: unknown) => ({ id: "resp_1", status: "failed", error, model: "m", usage: USAGE });

  test("is a response with an id, a status and usage", () => {
    const found = respond("responses", failed({ code: "server_error", message: "Sorry" }));
    expect(found).toMatchObject({ responseId: "resp_1", status: "failed" });
    expect(found.usage?.inputTokens).toBe(3);
    expect(JSON.parse(found.text).error).toEqual({ code: "server_error", message: "Sorry" });
  });

  test("has its reason without the name of an account", () => {
    const message = "Organization org-CANARY7 has no quota for gpt-6-eu-0419.";
    const { text } = respond(
      "responses",
      failed({ code: "rate_limit_exceeded", message, key: "sk-CANARY7" }),
    );
    expect(JSON.parse(text).error).toEqual({
      code: "rate_limit_exceeded",
      message: "Organization [redacted] has no quota for fast.",
    });
  });

  test("has an error code in the format of the API", () => {
    const { text } = respond("responses", failed({ code: "acct-CANARY7", message: "" }));
    expect(JSON.parse(text).error).toEqual({ code: "server_error", message: "The model failed to respond." });
  });

  test("keeps a null error if it did not fail", () => {
    const body = '{"id":"r","status":"completed","error":null}';
    expect(respond("responses", body).text).toBe(body);
  });
});

describe("invalid responses", () => {
  const error = { message: "no", type: "server_error", param: null, code: "c" };

  test.each([
    "chat.completions",
    "embeddings",
    "images.generations",
    "responses.compact",
    "responses",
  ] as const)("an error object is an error for %s", (endpoint) => {
    expect(read(endpoint, { error })).toEqual({ kind: "error", error });
    expect(read(endpoint, { error: "no" })).toMatchObject({ kind: "error", error: { message: "no" } });
  });

  test("an error next to choices is an error", () => {
    expect(read("chat.completions", { id: "x", choices: [], error }).kind).toBe("error");
  });

  test("a null error is no error", () => {
    expect(read("chat.completions", { id: "x", error: null }).kind).toBe("response");
  });

  test.each([
    ["an empty body", ""],
    ["an HTML page", "<!doctype html><title>Sign in</title>"],
    ["a list", "[]"],
    ["a truncated object", '{"id":"x","choices":[{"message":{"content":"hel'],
    ["two models", '{"model":"a","model":"b"}'],
    ["an object nested too deep", `{"a":${"[".repeat(40)}${"]".repeat(40)}}`],
  ])("%s is malformed", (_, body) => {
    expect(read("chat.completions", body)).toEqual({ kind: "malformed" });
  });
});

test.each([
  ["a response without output", { object: "response", output: [] }, true],
  ["a response with an item", { object: "response", output: [{ type: "message" }] }, false],
  [
    "an empty choice",
    { choices: [{ message: { role: "assistant", content: "", refusal: null, annotations: [] } }] },
    true,
  ],
  ["a choice with text", { choices: [{ message: { role: "assistant", content: "hi" } }] }, false],
  [
    "a choice with a tool call",
    { choices: [{ message: { role: "assistant", content: null, tool_calls: [{}] } }] },
    false,
  ],
])("detects whether a response is empty: %s", (_, json, nothing) => {
  expect(isEmptyResponse(wholePart(Buffer.from(JSON.stringify(json))))).toBe(nothing);
});
