import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { highlight, type TokenKind } from "./highlight.ts";

const LANGUAGES = [
  "json",
  "bash",
  "python",
  "typescript",
  "yaml",
  "http",
  "toml",
  "nginx",
  "go",
  "java",
  "php",
];

function ofKind(code: string, language: string, kind: TokenKind): string[] {
  return highlight(code, language)
    .filter((token) => token.kind === kind)
    .map(({ text }) => text);
}

describe("highlighted code", () => {
  test("is the same text, whatever the code and the language", () => {
    const parts = fc.array(
      fc.oneof(
        fc.constantFrom('"', "'", "`", "\\", "\n", "#", "//", "/*", "*/", '"""', "$", "{", ": ", "- "),
        fc.string(),
      ),
      { maxLength: 40 },
    );
    fc.assert(
      fc.property(fc.constantFrom(...LANGUAGES, "unknown", "constructor"), parts, (language, pieces) => {
        const code = pieces.join("");
        expect(
          highlight(code, language)
            .map(({ text }) => text)
            .join(""),
        ).toBe(code);
      }),
    );
  });

  test("of an unknown language is plain", () => {
    expect(highlight("x = 1", "brainfuck")).toEqual([{ kind: "plain", text: "x = 1" }]);
  });

  test("takes linear time, also for text without a closing quote", () => {
    const startedMs = performance.now();
    for (const language of LANGUAGES) {
      for (const part of ['"\\', "'\\", '"""', "/*", "`\\", "a", " ", "- ", "# "]) {
        highlight(part.repeat(10_000), language);
      }
    }
    expect(performance.now() - startedMs).toBeLessThan(4_000);
  });
});

test("JSON: names, strings, numbers and literals", () => {
  const code = '{"a": "b: c", "d": [-1.5e3, true, null]}';
  expect(ofKind(code, "json", "name")).toEqual(['"a"', '"d"']);
  expect(ofKind(code, "json", "string")).toEqual(['"b: c"']);
  expect(ofKind(code, "json", "number")).toEqual(["-1.5e3"]);
  expect(ofKind(code, "json", "keyword")).toEqual(["true", "null"]);
});

test("bash: commands, options, variables, strings and comments", () => {
  const code =
    'export KEY=x # secret\ncurl -sS http://localhost/v1 \\\n  --header "a: $B" \\\n  -d \'{"a":\n1}\' | jq .id\necho $KEY';
  expect(ofKind(code, "bash", "function")).toEqual(["curl", "jq", "echo"]);
  expect(ofKind(code, "bash", "name")).toEqual(["KEY", "-sS", "--header", "-d", "$KEY"]);
  expect(ofKind(code, "bash", "string")).toEqual(['"a: $B"', "'{\"a\":\n1}'"]);
  expect(ofKind(code, "bash", "comment")).toEqual(["# secret"]);
});

test("Python: keywords, calls, strings with a prefix", () => {
  const code = 'import os\nclient = OpenAI(base_url=f"{x}/v1")  # note\nfor e in s: print(1)';
  expect(ofKind(code, "python", "keyword")).toEqual(["import", "for", "in"]);
  expect(ofKind(code, "python", "function")).toEqual(["OpenAI", "print"]);
  expect(ofKind(code, "python", "string")).toEqual(['f"{x}/v1"']);
  expect(ofKind(code, "python", "comment")).toEqual(["# note"]);
});

test("TypeScript: keywords, template strings, comments but no addresses", () => {
  const code = 'const a = await fetch(`x\n`, "http://b"); // done\nmy.new = 2;';
  expect(ofKind(code, "ts", "keyword")).toEqual(["const", "await"]);
  expect(ofKind(code, "ts", "string")).toEqual(["`x\n`", '"http://b"']);
  expect(ofKind(code, "ts", "comment")).toEqual(["// done"]);
});

test("YAML: names in blocks, lists and flow mappings", () => {
  const code = '# top\nserver:\n  port: 8080\nkeys:\n  - name: "a b"\n    limits: { rpm: 60, url: http://x }';
  expect(ofKind(code, "yaml", "name")).toEqual(["server", "port", "keys", "name", "limits", "rpm", "url"]);
  expect(ofKind(code, "yaml", "number")).toEqual(["8080", "60"]);
  expect(ofKind(code, "yaml", "comment")).toEqual(["# top"]);
});

test("HTTP: request lines, headers, and the JSON of events", () => {
  expect(ofKind("POST /v1/responses HTTP/1.1\nHost: x\n\n", "http", "keyword")).toEqual(["POST"]);
  const events = 'event: response.created\ndata: {"type": "x"}\n\n';
  expect(ofKind(events, "http", "name")).toEqual(["event", "data", '"type"']);
});
