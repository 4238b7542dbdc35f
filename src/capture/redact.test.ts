import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { CAPTURE_REDACTIONS } from "../records/capture.ts";
import { mintApiKey } from "../secrets/api-key.ts";
import type { ISSUED_SECRETS } from "../secrets/issued-secrets.ts";
import { mintAccessToken, mintRefreshToken, mintSecret, mintServiceToken } from "../secrets/random-secret.ts";
import { mintRedeemCode } from "../secrets/redeem-code.ts";
import { otpauthUrl } from "../secrets/totp.ts";
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

describe("a secret is removed in every JSON form", () => {
  const random = (bytes: number) => crypto.getRandomValues(new Uint8Array(bytes));
  /** One secret of each kind that the gateway issues, after the text by which it is recognised. */
  const ISSUED: Record<keyof typeof ISSUED_SECRETS, readonly [before: string, secret: string]> = {
    "API key": ["", mintApiKey(random).secret],
    "personal access token": ["", mintAccessToken(random).secret],
    "service token": ["", mintServiceToken(random).secret],
    "refresh token": ["", mintRefreshToken(random).secret],
    "session cookie": ["__Host-session=", mintSecret(random).secret],
    "one-time link": ["https://gateway.example.com/console/join#", mintSecret(random).secret],
    "redeem code": ["", mintRedeemCode(random).code],
    "key of a second factor": [
      "",
      otpauthUrl("JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP", { issuer: "a b", account: "c" }),
    ],
  };
  const SHORT: Record<string, string> = { "/": "\\/", '"': '\\"', "\\": "\\\\", "\n": "\\n" };
  const hex = fc.constantFrom(
    (code: number) => code.toString(16).padStart(4, "0"),
    (code: number) => code.toString(16).padStart(4, "0").toUpperCase(),
  );
  const choice = fc.record({ form: fc.constantFrom("plain", "short", "unicode"), hex });

  /** A JSON string with the content, each character written in any of the forms that JSON has for it. */
  const escaped = (content: string): fc.Arbitrary<string> =>
    fc.array(choice, { minLength: content.length, maxLength: content.length }).map((choices) =>
      choices
        .map(({ form, hex: write }, i) => {
          const character = content[i] ?? "";
          const isPlain = form === "plain" && character !== '"' && character !== "\\" && character >= " ";
          if (isPlain) return character;
          if (form !== "unicode" && SHORT[character] !== undefined) return SHORT[character];
          return `\\u${write(character.charCodeAt(0))}`;
        })
        .join(""),
    );
  /** JSON within strings of JSON, up to three levels. */
  const nested = (content: string): fc.Arbitrary<string> =>
    fc.integer({ min: 1, max: 3 }).chain((levels) => {
      let text = escaped(content);
      for (let level = 1; level < levels; level++) text = text.chain(escaped);
      return text;
    });

  test.each(Object.entries(ISSUED))("%s that the gateway issued", (_, [before, secret]) => {
    fc.assert(
      fc.property(nested(secret), (text) => {
        const redacted = redactText(`{"text":"before ${before}${text} after"}`, ALWAYS);
        expect(redacted).toBe(`{"text":"before ${before}[redacted key] after"}`);
      }),
    );
  });

  test("a secret that is known", () => {
    // A credential is the value of a header: visible characters. A backslash is the same character in two forms.
    const visible = fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code));
    const secrets = fc.string({ unit: visible.filter((character) => character !== "\\"), minLength: 8 });
    const cases = secrets.chain((secret) => fc.tuple(fc.constant(secret), nested(secret)));
    fc.assert(
      fc.property(cases, ([secret, text]) => {
        const redacted = redactText(`{"text":"before ${text} after"}`, { secrets: [secret], patterns: [] });
        expect(redacted).toBe('{"text":"before [redacted key] after"}');
      }),
    );
  });

  test("a secret that a stream splits over its events", () => {
    const [, secret] = ISSUED["personal access token"];
    const known = "upstream/credential+77";
    const split = (content: string) =>
      fc
        .array(fc.integer({ min: 0, max: content.length }), { maxLength: 6 })
        .map((cuts) => [0, ...cuts.toSorted((a, b) => a - b), content.length])
        .map((cuts) => cuts.slice(1).map((cut, i) => content.slice(cuts[i], cut)))
        .chain((pieces) => fc.tuple(...pieces.map(escaped)));
    fc.assert(
      fc.property(split(`before ${secret} and ${known} after`), (pieces) => {
        const stream = pieces
          .map((piece) => `event: delta\ndata: {"type":"text","delta":"${piece}","index":0}\n\n`)
          .join("");
        const redacted = redactText(stream, { secrets: [known], patterns: [] });
        const deltas = [...redacted.matchAll(/^data: (.*)$/gm)].map(
          ([, json = ""]) => JSON.parse(json).delta,
        );
        expect(deltas.join("")).toBe("before [redacted key] and [redacted key] after");
      }),
    );
  });

  test("a key after a line end", () => {
    const [, secret] = ISSUED["API key"];
    expect(redactText(`{"text":"key:\\n${secret}"}`, ALWAYS)).toBe('{"text":"key:\\n[redacted key]"}');
  });

  test("text with escapes and without a secret stays", () => {
    const text =
      '{"path":"C:\\\\new\\u0020folder\\/x","quote":"\\"\\u00e9\\ud83d\\ude00\\"","bad":"\\x \\u12"}';
    expect(redactText(text, { secrets: ["0123456789"], patterns: [] })).toBe(text);
  });
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
  "\\u0061",
  "\\u005c",
  '"',
  "bearer  ",
  "https://",
  'data: {"d":"a"}\n',
];

test("every pattern takes linear time", () => {
  const rules = { secrets: ["0123456789"], patterns: [...CAPTURE_REDACTIONS] };
  const measure = (unit: string, chars: number) => {
    const text = unit.repeat(Math.ceil(chars / unit.length));
    const before = process.cpuUsage();
    redactText(text, rules);
    trimCutEnd(`${text} `);
    trimCutStart(` ${text}`);
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000;
  };
  // The fastest of several: the compiler and the garbage collector run in the same process.
  const fastest = (unit: string, chars: number) =>
    Math.min(...Array.from({ length: 3 }, () => measure(unit, chars)));
  for (const unit of HOSTILE) {
    // 90 to 160 ms were measured. A quadratic pattern takes minutes.
    expect(fastest(unit, 800_000), unit).toBeLessThan(800);
    // An escape hides a long run from the search for media, and the text without escapes has it whole.
    expect(fastest(`${unit.repeat(60)}\\u002d`, 400_000), unit).toBeLessThan(800);
  }
}, 60_000);

test("redaction is stable: a second pass changes nothing", () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      const once = redactText(text, ALWAYS);
      expect(redactText(once, ALWAYS)).toBe(once);
    }),
  );
});
