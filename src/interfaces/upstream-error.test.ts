import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { type Audience, publicMessage, readUpstreamError } from "./upstream-error.ts";

describe("finding the error", () => {
  const found = { code: "c", type: "t", param: "p", message: "m" };

  test("in an error envelope", () => {
    expect(readUpstreamError({ error: found })).toEqual(found);
  });

  test("in a failed response", () => {
    const json = {
      type: "response.failed",
      response: { status: "failed", error: { code: "c", message: "m" } },
    };
    expect(readUpstreamError(json)).toEqual({ code: "c", type: null, param: null, message: "m" });
  });

  test("in an error event, whose fields stand at the top", () => {
    const json = { type: "error", code: "c", message: "m", param: null, sequence_number: 3 };
    expect(readUpstreamError(json)).toEqual({ code: "c", type: "error", param: null, message: "m" });
  });

  test("in an error event that nests them", () => {
    expect(readUpstreamError({ type: "error", error: found })).toEqual(found);
  });

  test("in a bare string", () => {
    expect(readUpstreamError({ error: "no" })).toEqual({
      code: null,
      type: null,
      param: null,
      message: "no",
    });
  });

  test("with a code that is a number", () => {
    expect(readUpstreamError({ error: { code: 429, message: "m" } })?.code).toBe("429");
  });

  test("with the time of its reset, as a time or a moment", () => {
    const read = (more: object) => readUpstreamError({ error: { ...found, ...more } });
    expect(read({ resets_in_seconds: 90 })).toEqual({ ...found, resetsInMs: 90_000 });
    expect(read({ resets_at: 1_788_264_000 })).toEqual({ ...found, resetsAtMs: 1_788_264_000_000 });
    expect(read({ resets_at: 1_788_264_000, resets_in_seconds: 90 })).toEqual({
      ...found,
      resetsInMs: 90_000,
    });
    expect(read({ resets_at: "soon", resets_in_seconds: -1 })).toEqual(found);
  });

  test("with fields of any other type left out", () => {
    const odd = { error: { code: {}, type: [], param: true, message: null } };
    expect(readUpstreamError(odd)).toEqual({ code: null, type: null, param: null, message: "" });
  });

  test("or not, where there is none", () => {
    for (const json of [
      null,
      7,
      "x",
      [],
      {},
      { error: null },
      { error: 7 },
      { message: "m" },
      { type: "error" },
    ]) {
      expect(readUpstreamError(json)).toBeNull();
    }
  });
});

const sentBy = (request: string, change: Partial<Audience> = {}): Audience => ({
  publicModel: "fast",
  upstreamModel: "gpt-6-eu-0419",
  mentions: (word) => request.includes(word),
  ...change,
});

describe("messages stay readable", () => {
  /** What an upstream writes, and the words in it that the client had sent. */
  const KEPT: readonly [message: string, request: string][] = [
    [
      "This model's maximum context length is 128000 tokens. However, your messages resulted in 130512 tokens. Please reduce the length of the messages.",
      "",
    ],
    ["Your input exceeds the context window of this model. Please adjust your input and try again.", ""],
    [
      "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
      "",
    ],
    [
      "Unsupported value: 'temperature' does not support 0.7 with this model. Only the default (1) value is supported.",
      "",
    ],
    [
      "Invalid value: 'bot42'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.",
      '{"role":"bot42"}',
    ],
    ["Missing required parameter: 'messages[0].content'.", ""],
    [
      "Invalid type for 'messages[0].content': expected one of a string or array of objects, but got an integer instead.",
      "",
    ],
    [
      "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.",
      "",
    ],
    ["Unknown parameter: 'foo_bar2'.", '{"foo_bar2":1}'],
    [
      "Invalid schema for response_format 'math_v2': 'additionalProperties' is required to be supplied and to be false.",
      '{"name":"math_v2"}',
    ],
    [
      "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: call_9f3aB1",
      '{"id":"call_9f3aB1"}',
    ],
    ["No tool output found for function call call_9f3aB1.", '{"call_id":"call_9f3aB1"}'],
    [
      "Invalid image URL: 'messages[0].content[1].image_url.url'. Expected a base64-encoded data URL with an image MIME type.",
      "",
    ],
    [
      "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.",
      "",
    ],
    ["Previous response with id 'resp_68ab12' not found.", '{"previous_response_id":"resp_68ab12"}'],
    ["Invalid 'input[0]': input cannot be an empty string.", ""],
    [
      "max_tokens is too large: 200,000. This model supports at most 16,384 completion tokens, whereas you provided 200,000.",
      "",
    ],
    ["Invalid value: '10x10'. Supported values are: '1024x1024', '1024x1536', '1536x1024', and 'auto'.", ""],
    [
      "Your request was rejected as a result of our safety system. Your prompt may contain text that is not allowed by our safety system.",
      "",
    ],
    ["The encrypted content for item rs_0a1b2c could not be verified.", '{"id":"rs_0a1b2c"}'],
    [
      "Item 'rs_0a1b2c' of type 'reasoning' was provided without its required following item.",
      '{"id":"rs_0a1b2c"}',
    ],
    [
      "We could not parse the JSON body of your request. What was sent was not valid JSON (e.g. a trailing comma).",
      "",
    ],
    ["Invalid type for 'metadata.my_field': expected a string.", '{"metadata":{"my_field":1}}'],
    ["Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64.", ""],
    ["Reasoning is 87.5% done; you've used 3 of 5 calls!", ""],
  ];

  test.each(KEPT)("%s", (message, request) => {
    expect(publicMessage(message, sentBy(request))).toBe(message);
  });

  test("the upstream's model name becomes the public one", () => {
    const message = "The model `gpt-6-eu-0419` does not exist (asked for gpt-6-eu-0419).";
    expect(publicMessage(message, sentBy(""))).toBe("The model `fast` does not exist (asked for fast).");
  });

  test("a public model name is taken as it is, whatever characters it has", () => {
    const audience = sentBy("", { publicModel: "$&-$1" });
    expect(publicMessage("No model gpt-6-eu-0419 here", audience)).toBe("No model $&-$1 here");
  });

  test("what is left out leaves a mark, one for a run of words", () => {
    expect(publicMessage("Key sk-abc123 of org-x9 'acct_7' failed", sentBy(""))).toBe(
      "Key [redacted] of [redacted] '[redacted]' failed",
    );
    expect(publicMessage("at 10.0.0.7:443 10.0.0.8:443 now", sentBy(""))).toBe("at [redacted] now");
  });

  test("a long message ends between words", () => {
    const shown = publicMessage(`${"word ".repeat(199)}unspeakable`, sentBy(""));
    expect(shown).toBe("word ".repeat(199).trim());
  });
});

describe("secrets never pass", () => {
  const letters = "abcdefghijklmnopqrstuvwxyz";
  const alphabet = (chars: string, minLength: number, maxLength: number) =>
    fc.string({ unit: fc.constantFrom(...chars), minLength, maxLength });
  const digits = "0123456789";
  const alnum = letters + letters.toUpperCase() + digits;
  const label = alphabet(letters, 2, 10);
  const byte = fc.integer({ min: 0, max: 255 });
  const ip = fc.tuple(byte, byte, byte, byte).map((bytes) => bytes.join("."));
  const host = fc
    .tuple(label, label, fc.constantFrom("com", "net", "internal", "azure.com"))
    .map((parts) => parts.join("."));
  const secrets = fc.oneof(
    fc
      .tuple(
        fc.constantFrom("sk-", "sk-proj-", "org-", "proj_", "key-", "gwk_", "Bearer-"),
        alphabet(alnum, 16, 48),
      )
      .map((parts) => parts.join("")),
    fc.tuple(fc.constantFrom("org-", "sk-", "proj-", "key-"), label).map((parts) => parts.join("")),
    fc.uuid(),
    alphabet(`${alnum}+/`, 24, 64).map((text) => `${text}==`),
    alphabet(`${alnum}-_`, 43, 43),
    alphabet("abcdef", 24, 24).map((text) => `${text}0f`),
    alphabet(`abcdef${digits}`, 32, 64),
    alphabet(digits, 10, 20),
    host,
    host.map((name) => `https://${name}/openai/v1?key=1`),
    host.map((name) => `${name}:8443`),
    ip,
    ip.map((address) => `${address}:443`),
    ip.map((address) => `http://${address}/`),
    fc.ipV6().filter((address) => address.length > 12 && !address.endsWith("::")),
    fc.tuple(label, host).map(([user, name]) => `${user}@${name}`),
    fc.constant("CANARY-SECRET-7f3a"),
    fc.array(label, { minLength: 2, maxLength: 4 }).map((parts) => `${parts.join("_")}_${parts.length}`),
    fc.array(label, { minLength: 3, maxLength: 5 }).map((parts) => parts.join("-")),
  );
  const plain = fc.array(
    fc.constantFrom("The", "key", "of", "your", "account", "is", "not", "valid.", "(see", "docs)"),
    {
      maxLength: 300,
    },
  );
  const wrapped = fc.constantFrom<(secret: string) => string>(
    (secret) => secret,
    (secret) => `'${secret}'`,
    (secret) => `("${secret}"),`,
    (secret) => `<${secret}>.`,
    (secret) => `key=${secret}`,
    (secret) => `org:${secret}`,
    (secret) => `{"organization":"${secret}"}`,
    (secret) => `messages[0].${secret}`,
    (secret) => `${secret}\u200b`,
    (secret) => `\u00a0${secret}\u00a0`,
    (secret) => `${secret}:gpt-6-eu-0419`,
  );

  test("a secret of any shape, planted anywhere in a message, is not in what the client gets", () => {
    fc.assert(
      fc.property(plain, plain, secrets, wrapped, (before, after, secret, wrap) => {
        const message = [...before, wrap(secret), ...after].join(" ");
        expect(publicMessage(message, sentBy(""))).not.toContain(secret);
      }),
      { numRuns: 2_000 },
    );
  });

  test("a message cut at its limit does not end with a piece of one", () => {
    fc.assert(
      fc.property(fc.integer({ min: 940, max: 1_000 }), secrets, (length, secret) => {
        const filler = "a ".repeat(500).slice(0, length - (length % 2));
        const shown = publicMessage(filler + secret + " z".repeat(100), sentBy(""));
        expect(shown.replaceAll("[redacted]", "")).toMatch(/^[az ]*$/);
      }),
    );
  });

  test("a word that the client sent itself is no secret", () => {
    expect(publicMessage("No file file-9f3a_01.", sentBy('{"file_id":"file-9f3a_01"}'))).toBe(
      "No file file-9f3a_01.",
    );
  });
});
