import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { joinParts, wholeBytesPart } from "../../base/parts.ts";
import { ENDPOINTS } from "../endpoints.ts";
import type { EndpointName } from "./endpoint.ts";
import { readJsonRequest } from "./json-request.ts";
import type { ModelRequest, RequestBody } from "./request.ts";

const LIMITS = { depthMax: 16, modelNameCharsMax: 32 };
const LEAST = {
  "chat.completions": { model: "m", messages: [{ role: "user", content: "hi" }] },
  responses: { model: "m", input: "hi" },
} as const;

type Bounded = keyof typeof LEAST;

function read(name: EndpointName, text: string): ModelRequest {
  const endpoint = ENDPOINTS.find((one) => one.name === name);
  if (!endpoint) throw new Error(`no endpoint ${name}`);
  return readJsonRequest(wholeBytesPart(new TextEncoder().encode(text)), endpoint, LIMITS);
}

const readWith = (name: Bounded, fields: Record<string, unknown>) =>
  read(name, JSON.stringify({ ...LEAST[name], ...fields }));

function sent(body: RequestBody): string {
  const content = body.forUpstream("up");
  if (!Array.isArray(content)) throw new Error("a JSON body is in memory");
  return new TextDecoder().decode(joinParts(content));
}

describe("the output limit", () => {
  test.each([
    ["chat.completions", {}, null],
    ["chat.completions", { max_tokens: 7 }, 7],
    ["chat.completions", { max_completion_tokens: 7 }, 7],
    ["chat.completions", { max_completion_tokens: null, max_tokens: 7 }, 7],
    ["responses", { max_output_tokens: 7 }, 7],
  ] as const)("of %s with %j is %p", (name, fields, bound) => {
    expect(readWith(name, fields).outputTokensMax).toBe(bound);
  });

  test.each([
    ["chat.completions", { max_output_tokens: 1 }],
    ["responses", { max_tokens: 1 }],
    ["responses", { max_completion_tokens: 1 }],
    ["responses", { max_output_tokens: "1" }],
    ["responses", { max_output_tokens: 0 }],
    ["chat.completions", { max_tokens: -1 }],
    ["chat.completions", { max_tokens: 1.5 }],
    ["chat.completions", { max_completion_tokens: 1, max_tokens: 1e300 }],
  ] as const)("is none if the upstream may ignore it: %s with %j", (name, fields) => {
    expect(readWith(name, fields).outputTokensMax).toBeNull();
  });

  test("is the larger of two, because upstreams differ in which one they apply", () => {
    const fields = { max_completion_tokens: 1, max_tokens: 900 };
    expect(readWith("chat.completions", fields).outputTokensMax).toBe(900);
  });
});

describe("an invalid output limit", () => {
  test.each([
    ["chat.completions", { max_tokens: 0 }, "invalid_value"],
    ["chat.completions", { max_tokens: -2 }, "invalid_value"],
    ["chat.completions", { max_completion_tokens: 1.5 }, "invalid_value"],
    ["chat.completions", { max_tokens: 5, max_completion_tokens: 1e20 }, "invalid_value"],
    ["chat.completions", { max_tokens: "5" }, "invalid_type"],
    ["chat.completions", { max_tokens: true }, "invalid_type"],
    ["responses", { max_output_tokens: [] }, "invalid_type"],
    ["responses", { max_output_tokens: {} }, "invalid_type"],
  ] as const)("is rejected for paid requests: %s with %j is %s", (name, fields, code) => {
    const request = readWith(name, fields);
    expect(() => request.checkBounds()).toThrow(expect.objectContaining({ code }));
  });

  test.each([
    ["chat.completions", {}],
    ["chat.completions", { max_tokens: null }],
    ["chat.completions", { max_tokens: 1, max_completion_tokens: 128_000 }],
    ["chat.completions", { max_tokens: -1 }],
    ["chat.completions", { max_output_tokens: "another family's" }],
    ["responses", { max_output_tokens: 16 }],
  ] as const)("does not include %s with %j", (name, fields) => {
    expect(() => readWith(name, fields).checkBounds()).not.toThrow();
  });
});

describe("an output cap of 50 tokens", () => {
  const capped = (name: Bounded, fields: Record<string, unknown>) =>
    JSON.parse(sent(readWith(name, fields).body.withOutputCap(50)));

  test.each([
    ["chat.completions", {}, { max_completion_tokens: 50 }],
    ["chat.completions", { max_tokens: 900 }, { max_tokens: 50 }],
    ["chat.completions", { max_completion_tokens: 900 }, { max_completion_tokens: 50 }],
    [
      "chat.completions",
      { max_completion_tokens: 900, max_tokens: 7 },
      { max_completion_tokens: 50, max_tokens: 7 },
    ],
    [
      "chat.completions",
      { max_completion_tokens: null, max_tokens: 900 },
      { max_completion_tokens: null, max_tokens: 50 },
    ],
    ["chat.completions", { max_tokens: "many" }, { max_tokens: 50 }],
    ["chat.completions", { max_completion_tokens: null }, { max_completion_tokens: 50 }],
    ["responses", {}, { max_output_tokens: 50 }],
    ["responses", { max_output_tokens: 900 }, { max_output_tokens: 50 }],
    ["responses", { max_output_tokens: null, max_tokens: 900 }, { max_output_tokens: 50, max_tokens: 900 }],
  ] as const)("changes %s with %j to %j", (name, fields, bounds) => {
    expect(capped(name, fields)).toEqual({ ...LEAST[name], model: "up", ...bounds });
  });

  test("works together with the forced usage of a chat stream", () => {
    for (const fields of [{}, { max_tokens: 900 }, { stream_options: { include_obfuscation: false } }]) {
      const body = capped("chat.completions", { stream: true, ...fields });
      expect(body.stream_options.include_usage).toBe(true);
      expect(body.max_tokens ?? body.max_completion_tokens).toBe(50);
      expect(body.model).toBe("up");
    }
  });

  test("is kept when encrypted reasoning of another account is removed", () => {
    const input = [{ type: "reasoning", id: "rs_1", summary: [], encrypted_content: "x" }, { role: "user" }];
    const body = readWith("responses", { input }).body.withOutputCap(50).withoutEncryptedReasoning();
    if (body === null) throw new Error("there was reasoning in it");
    const text = sent(body);
    expect(JSON.parse(text).max_output_tokens).toBe(50);
    expect(text).not.toContain("encrypted_content");
  });

  test("does not change the request itself", () => {
    const request = readWith("chat.completions", { max_tokens: 900 });
    request.body.withOutputCap(50);
    expect(JSON.parse(sent(request.body)).max_tokens).toBe(900);
  });

  test("applies to every limit of any body and changes nothing else", () => {
    const bound = fc.option(
      fc.oneof(fc.nat(200), fc.constant("x"), fc.double({ noNaN: true, noDefaultInfinity: true })),
    );
    const chat = fc.record(
      {
        temperature: fc.integer(),
        max_tokens: bound,
        stream: fc.boolean(),
        max_completion_tokens: bound,
        user: fc.string(),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(chat, fc.integer({ min: 1, max: 100 }), (fields, cap) => {
        const request = readWith("chat.completions", fields);
        const before = JSON.parse(sent(request.body));
        const after = JSON.parse(sent(request.body.withOutputCap(cap)));
        const { max_tokens: _a, max_completion_tokens: _b, ...restBefore } = before;
        const { max_tokens, max_completion_tokens, ...restAfter } = after;
        expect(restAfter).toEqual(restBefore);
        const bounds = [max_tokens, max_completion_tokens].filter((value) => value != null);
        expect(bounds.length).toBeGreaterThan(0);
        for (const value of bounds) expect(value).toBeLessThanOrEqual(cap);
      }),
    );
  });
});

test("detects responses that build on stored upstream state", () => {
  expect(readWith("responses", {}).readsStored).toBe(false);
  expect(readWith("responses", { previous_response_id: null, conversation: null }).readsStored).toBe(false);
  for (const fields of [{ previous_response_id: "r" }, { conversation: "c" }, { prompt: { id: "p" } }]) {
    expect(readWith("responses", fields).readsStored).toBe(true);
  }
  expect(read("images.generations", '{"model":"m","prompt":"a cat"}').readsStored).toBe(false);
});
