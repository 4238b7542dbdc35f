import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { CAPTURE_REDACTIONS } from "../records.ts";
import { redactHeader, redactText, trimCutEnd, trimCutStart } from "./redact.ts";

const ALWAYS = { secrets: [], patterns: [] };
const IMAGE = Buffer.alloc(90, 7).toString("base64");

describe("keys and credentials are always removed", () => {
  test.each([
    ["a key of the gateway", "gwk_AbCdEf12_0123456789012345678901234567890123456789"],
    ["a key of OpenAI", "sk-proj-0123456789abcdefghij"],
    ["a key of Anthropic", "sk-ant-api03-0123456789_abcdef-ghij"],
    ["a key of Google", "AIzaSyA0123456789abcdefghijklmnopqrstuv"],
    ["a key of AWS", "AKIAIOSFODNN7EXAMPLE"],
    ["a token of GitHub", "ghp_0123456789abcdefghijklmnopqrstuvwxyz"],
    ["a JWT", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"],
    ["a private key", "-----BEGIN RSA PRIVATE KEY-----\\nMIIEow\\n-----END RSA PRIVATE KEY-----"],
  ])("%s", (_, secret) => {
    const redacted = redactText(`{"text":"before ${secret} after"}`, ALWAYS);
    expect(redacted).toBe('{"text":"before [redacted key] after"}');
  });

  test.each([
    ["a member", '{"api_key": "abc", "n": 1}', '{"api_key": "[redacted credential]", "n": 1}'],
    [
      "a member in JSON within a string",
      '{"arguments":"{\\"password\\":\\"hunter2\\",\\"a\\":1}"}',
      '{"arguments":"{\\"password\\":\\"[redacted credential]\\",\\"a\\":1}"}',
    ],
    [
      "a header of a tool",
      '{"headers":{"Authorization":"Bearer abc"}}',
      '{"headers":{"Authorization":"[redacted credential]"}}',
    ],
    ["a bearer token", "Bearer 0123456789abcdef.", "Bearer [redacted credential]"],
    ["a password in a URL", "https://user:pw@host/x", "https://[redacted credential]@host/x"],
    [
      "a token in a URL",
      "https://host/x?token=abcdef1&y=2",
      "https://host/x?token=[redacted credential]&y=2",
    ],
  ])("%s", (_, text, redacted) => {
    expect(redactText(text, ALWAYS)).toBe(redacted);
  });

  test("a secret that is known, in any format", () => {
    const rules = { secrets: ["my own secret"], patterns: [] };
    expect(redactText("is my own secret safe?", rules)).toBe("is [redacted key] safe?");
  });

  test("the value of a header with a credential", () => {
    expect(redactHeader("X-Api-Key", "short", ALWAYS)).toBe("[redacted credential]");
    expect(redactHeader("user-agent", "curl/8", ALWAYS)).toBe("curl/8");
  });

  test("a schema that names a password stays", () => {
    const schema = '{"properties":{"password":{"type":"string"},"max_tokens":5}}';
    expect(redactText(schema, ALWAYS)).toBe(schema);
  });
});

describe("inline media are always removed, with their size and digest", () => {
  test.each([
    [
      "a data URL",
      `{"image_url":"data:image/png;base64,${IMAGE}"}`,
      /"image_url":"\[redacted image\/png, 90 bytes, sha256 \w{16}\]"/,
    ],
    ["a short data URL", '{"url":"data:image/gif;base64,R0lGOD"}', /"\[redacted image\/gif, 4 bytes/],
    [
      "the data of Messages and Gemini",
      `{"mime_type":"a/b","data":"${IMAGE}"}`,
      /"data":"\[redacted base64, 90 bytes/,
    ],
    ["an image of a response", `{"b64_json": "${IMAGE}"}`, /"b64_json": "\[redacted base64, 90 bytes/],
    [
      "any long text in Base64",
      `x ${Buffer.alloc(300, 9).toString("base64")} y`,
      /^x \[redacted base64, 300 bytes.*\] y$/,
    ],
  ])("%s", (_, text, redacted) => {
    const result = redactText(text, ALWAYS);
    expect(result).toMatch(redacted);
    expect(result).not.toContain(IMAGE);
  });

  test("language stays, also without spaces", () => {
    const text =
      '{"content":"Donaudampfschifffahrtsgesellschaft 机器学习模型网关 https://example.com/a/b?c=d"}';
    expect(redactText(text, ALWAYS)).toBe(text);
  });
});

describe("by choice are removed", () => {
  test.each([
    ["email", "write to ada.l+x@mail.example.com now", "write to [redacted email] now"],
    [
      "card",
      "card 4111 1111 1111 1111, order 4111 1111 1111 1112",
      "card [redacted card], order 4111 1111 1111 1112",
    ],
    ["phone", "call +49 30 1234 5678 or 12345678", "call [redacted phone] or 12345678"],
    ["ip", "from 10.0.0.12 version 1.2.3", "from [redacted ip] version 1.2.3"],
  ] as const)("%s", (name, text, redacted) => {
    expect(redactText(text, ALWAYS)).toBe(text);
    expect(redactText(text, { secrets: [], patterns: [name] })).toBe(redacted);
  });
});

test("the ends of a cut lose what a secret could be a part of", () => {
  expect(trimCutEnd('"a": "text sk-proj-01')).toBe('"a": "text ');
  expect(trimCutStart('3456789abc", "b": 1')).toBe('", "b": 1');
});

/** Texts on which a careless pattern would try again at each character. */
const HOSTILE = [
  "a",
  "eyJ-",
  "-----BEGIN ",
  "\\",
  '\\"',
  "\\/",
  "sk-",
  "1 ",
  "data:a/b;",
  "a@",
  "?key=",
  "x.",
  '"data":"a',
];

test("every pattern takes linear time", () => {
  const rules = { secrets: ["0123456789"], patterns: [...CAPTURE_REDACTIONS] };
  const measure = (unit: string, chars: number) => {
    const text = unit.repeat(Math.ceil(chars / unit.length));
    const startedMs = performance.now();
    redactText(text, rules);
    trimCutEnd(`${text} `);
    trimCutStart(` ${text}`);
    return performance.now() - startedMs;
  };
  // The fastest of several: another process may have had the processor.
  const fastest = (unit: string, chars: number) =>
    Math.min(...Array.from({ length: 8 }, () => measure(unit, chars)));
  for (const unit of HOSTILE) {
    const shortMs = fastest(unit, 250_000);
    // Four times the text takes sixteen times the time if a pattern is quadratic.
    expect(fastest(unit, 1_000_000), unit).toBeLessThan(Math.max(shortMs, 20) * 10);
  }
});

test("redaction is stable: a second pass changes nothing", () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      const once = redactText(text, ALWAYS);
      expect(redactText(once, ALWAYS)).toBe(once);
    }),
  );
});
