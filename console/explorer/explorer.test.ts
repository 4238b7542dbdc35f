import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { OPERATIONS } from "../../src/public-api/operations.ts";
import { addressOf, placeOf } from "./address.ts";
import { placeOfCaret } from "./caret.ts";
import { codeString } from "./code-string.ts";
import { firstOperation, operationOf, pathExamples } from "./described.ts";
import { snippetsOf } from "./snippets.ts";
import { bodySchema, fieldsOf, type JsonSchema } from "./structure.ts";
import { complete, insert } from "./suggest.ts";

const { body } = OPERATIONS["POST /v1/chat/completions"];
const CHAT: JsonSchema = bodySchema(body?.["application/json"]);

/** `|` is the caret. */
function completed(marked: string, models: string[] = []) {
  const caret = marked.indexOf("|");
  return complete(marked.replace("|", ""), caret, CHAT, models);
}

const labels = (marked: string, models?: string[]) =>
  completed(marked, models)?.suggestions.map(({ label }) => label) ?? [];

describe("the fields of a body", () => {
  const fields = fieldsOf(CHAT);
  const named = (name: string) => fields.find((field) => field.name === name);

  test("say what is required", () => {
    expect(fields.filter(({ isRequired }) => isRequired).map(({ name }) => name)).toEqual([
      "model",
      "messages",
    ]);
  });

  test("have a type that people understand", () => {
    expect(named("messages")?.type).toBe("list of objects");
    expect(named("stop")?.type).toBe("string or list of strings");
    expect(named("stream")?.type).toBe("boolean");
  });

  test("reach into messages", () => {
    expect(named("messages")?.fields.map(({ name }) => name)).toContain("content");
    expect(named("messages")?.fields.find(({ name }) => name === "role")?.values).toContain("assistant");
  });
});

describe("completion", () => {
  test("offers the names that are missing", () => {
    expect(labels('{"model": "a", "str|": 1}')).toEqual(["stream", "stream_options"]);
    expect(labels('{"|"}')).toContain("model");
    expect(labels('{"model": "a", "|", "messages": []}')).not.toContain("messages");
  });

  test("offers names inside of messages", () => {
    expect(labels('{"messages": [{"ro|"}]}')).toEqual(["role"]);
  });

  test("offers the models of the key, and the values of a field", () => {
    expect(labels('{"model": "|"}', ["fast", "slow"])).toEqual(["fast", "slow"]);
    expect(labels('{"stream": t|}')).toEqual(["true"]);
    expect(labels('{"messages": [{"role": "us|"}]}')).toEqual(["user"]);
  });

  test("offers nothing after a value that is complete", () => {
    expect(completed('{"model": "a" |}')).toBeNull();
    expect(completed("|")).toBeNull();
  });

  test("puts the choice in the place of what was typed", () => {
    const found = completed('{"str|"}');
    const [first] = found?.suggestions ?? [];
    if (found === null || first === undefined) throw new Error("Nothing was offered.");
    expect(insert('{"str"}', found, first, CHAT)).toEqual({ text: '{"stream": }', caret: 11 });
  });

  test("never fails, whatever is typed and wherever the caret is", () => {
    fc.assert(
      fc.property(fc.string(), fc.nat(), (text, at) => {
        placeOfCaret(text, at % (text.length + 1));
        complete(text, at % (text.length + 1), CHAT, []);
      }),
    );
    fc.assert(
      fc.property(fc.json(), fc.nat(), (text, at) => {
        complete(text.slice(0, at % (text.length + 1)), at % (text.length + 1), CHAT, []);
      }),
    );
  });
});

describe("the address", () => {
  test("brings back an operation and any body", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), (body) => {
        expect(placeOf(addressOf({ operation: "createResponse", body }))).toEqual({
          operation: "createResponse",
          body,
        });
      }),
    );
    expect(placeOf("#createResponse")).toEqual({ operation: "createResponse", body: null });
  });

  test("that was cut or made up shows the operation alone, or nothing", () => {
    expect(placeOf("#createResponse/_w")).toEqual({ operation: "createResponse", body: null });
    expect(placeOf("#<script>")).toBeNull();
    expect(placeOf("")).toBeNull();
  });
});

describe("snippets", () => {
  const request = {
    baseUrl: "https://gateway.example.com",
    method: "POST" as const,
    path: "/v1/responses",
    isSocket: false,
    body: { model: "fast", input: `it's "quoted" \\ \`$HOME\` #{1} \${2}` },
    files: [],
  };

  test("are there in ten languages, each with the key from the environment", () => {
    const snippets = snippetsOf(request);
    expect(snippets.map(({ id }) => id)).toEqual([
      "curl",
      "python",
      "typescript",
      "fetch",
      "go",
      "java",
      "php",
      "ruby",
      "csharp",
      "codex",
    ]);
    for (const { code } of snippets) expect(code).toContain("MODEL_GATEWAY_KEY");
  });

  test("never hold /v1 twice, and give SDKs the address with it", () => {
    for (const { id, code } of snippetsOf(request)) {
      expect(code).not.toContain("/v1/v1");
      const isSdk = ["python", "typescript", "codex"].includes(id);
      expect(code).toContain(isSdk ? 'gateway.example.com/v1"' : "gateway.example.com/v1/responses");
    }
  });

  test("of a shell come back from a shell as they went in", async () => {
    for (const text of [request.body.input, "", "a b\nc", "'", "$(rm x)"]) {
      const child = Bun.spawn(["sh", "-c", `printf %s ${codeString(text, "shell")}`]);
      expect(await new Response(child.stdout).text()).toBe(text);
    }
  });

  test("of JavaScript come back as they went in", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), (text) => {
        expect(JSON.parse(codeString(text, "javascript"))).toBe(text);
      }),
    );
  });

  test("of forms name the files", () => {
    const form = {
      ...request,
      path: "/v1/images/edits",
      body: { model: "p", prompt: "x" },
      files: [{ field: "image", name: "a.png" }],
    };
    const curl = snippetsOf(form).find(({ id }) => id === "curl")?.code;
    expect(curl).toContain("image=@a.png");
    expect(curl).not.toContain("Content-Type");
  });
});

test("a path begins with what is known to be there, and with its example where nothing is", () => {
  const model = operationOf("getModel") ?? firstOperation();
  expect(pathExamples(model, { model: "mine", request_id: "req_1" })).toEqual({ model: "mine" });
  expect(pathExamples(model, { request_id: "req_1" })).toEqual({ model: "fast-chat" });
});
