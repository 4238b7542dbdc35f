import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { DEMO_MODELS as CREATED_DEMO_MODELS } from "../../src/config/first-run/demo.ts";
import { OPERATIONS } from "../../src/public-api/operations.ts";
import { codeString } from "../snippets/code-string.ts";
import { buildSnippets } from "../snippets/snippets.ts";
import { buildAddress, parseAddress } from "./address.ts";
import { placeOfCaret } from "./caret.ts";
import { DEMO_MODELS } from "./demo-models.ts";
import { buildExamples, findOperation, firstOperation, modelsFor, pathExamples } from "./described.ts";
import type { JsonSchema } from "./json-schema.ts";
import { bodySchema, listFields } from "./structure.ts";
import { complete, formatInsertion } from "./suggest.ts";

const { body } = OPERATIONS["POST /v1/chat/completions"];
const CHAT: JsonSchema = bodySchema(body?.["application/json"]);

/** In `marked`, `|` is the caret. */
function completed(marked: string, models: string[] = []) {
  const caret = marked.indexOf("|");
  return complete(marked.replace("|", ""), caret, CHAT, models);
}

const labels = (marked: string, models?: string[]) =>
  completed(marked, models)?.suggestions.map(({ label }) => label) ?? [];

describe("the fields of a request body", () => {
  const fields = listFields(CHAT);
  const named = (name: string) => fields.find((field) => field.name === name);

  test("mark which are required", () => {
    expect(fields.filter(({ isRequired }) => isRequired).map(({ name }) => name)).toEqual([
      "model",
      "messages",
    ]);
  });

  test("have a readable type", () => {
    expect(named("messages")?.type).toBe("list of objects");
    expect(named("stop")?.type).toBe("string or list of strings");
    expect(named("stream")?.type).toBe("boolean");
  });

  test("include the fields of messages", () => {
    expect(named("messages")?.fields.map(({ name }) => name)).toContain("content");
    expect(named("messages")?.fields.find(({ name }) => name === "role")?.values).toContain("assistant");
  });
});

describe("completion", () => {
  test("suggests missing field names", () => {
    expect(labels('{"model": "a", "str|": 1}')).toEqual(["stream", "stream_options"]);
    expect(labels('{"|"}')).toContain("model");
    expect(labels('{"model": "a", "|", "messages": []}')).not.toContain("messages");
  });

  test("suggests field names inside messages", () => {
    expect(labels('{"messages": [{"ro|"}]}')).toEqual(["role"]);
  });

  test("suggests the models of the key and the values of a field", () => {
    expect(labels('{"model": "|"}', ["fast", "slow"])).toEqual(["fast", "slow"]);
    expect(labels('{"stream": t|}')).toEqual(["true"]);
    expect(labels('{"messages": [{"role": "us|"}]}')).toEqual(["user"]);
  });

  test("suggests nothing after a complete value", () => {
    expect(completed('{"model": "a" |}')).toBeNull();
    expect(completed("|")).toBeNull();
  });

  test("replaces the typed text with the selected suggestion", () => {
    const found = completed('{"str|"}');
    const [first] = found?.suggestions ?? [];
    if (found === null || first === undefined) throw new Error("Nothing was offered.");
    expect(formatInsertion('{"str"}', found, first, CHAT)).toBe('"stream": ');
    expect(found.place).toMatchObject({ from: 1, to: 6 });
    expect(formatInsertion('{"str": 1}', found, first, CHAT)).toBe('"stream"');
  });

  test("never fails, for any text and any caret position", () => {
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

describe("the explorer's address", () => {
  test("restores an operation and any body", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), (body) => {
        expect(parseAddress(buildAddress({ operation: "createResponse", body }))).toEqual({
          operation: "createResponse",
          body,
        });
      }),
    );
    expect(parseAddress("#createResponse")).toEqual({ operation: "createResponse", body: null });
  });

  test("that is truncated or malformed restores the operation alone, or nothing", () => {
    expect(parseAddress("#createResponse/_w")).toEqual({ operation: "createResponse", body: null });
    expect(parseAddress("#<script>")).toBeNull();
    expect(parseAddress("")).toBeNull();
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

  test("exist in ten languages, each with the key from the environment", () => {
    const snippets = buildSnippets(request);
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

  test("never contain /v1 twice, and pass SDKs the base URL with /v1", () => {
    for (const { id, code } of buildSnippets(request)) {
      expect(code).not.toContain("/v1/v1");
      const isSdk = ["python", "typescript", "codex"].includes(id);
      expect(code).toContain(isSdk ? 'gateway.example.com/v1"' : "gateway.example.com/v1/responses");
    }
  });

  test("quote text so that a shell reads it back unchanged", async () => {
    for (const text of [request.body.input, "", "a b\nc", "'", "$(rm x)"]) {
      const child = Bun.spawn(["sh", "-c", `printf %s ${codeString(text, "shell")}`]);
      expect(await new Response(child.stdout).text()).toBe(text);
    }
  });

  test("quote text so that JavaScript reads it back unchanged", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), (text) => {
        expect(JSON.parse(codeString(text, "javascript"))).toBe(text);
      }),
    );
  });

  test("of multipart forms name the files", () => {
    const form = {
      ...request,
      path: "/v1/images/edits",
      body: { model: "p", prompt: "x" },
      files: [{ field: "image", name: "a.png" }],
    };
    const curl = buildSnippets(form).find(({ id }) => id === "curl")?.code;
    expect(curl).toContain("image=@a.png");
    expect(curl).not.toContain("Content-Type");
  });
});

test("path parameters start with known values, and otherwise with the example", () => {
  const model = findOperation("getModel") ?? firstOperation();
  expect(pathExamples(model, { model: "mine", request_id: "req_1" })).toEqual({ model: "mine" });
  expect(pathExamples(model, { request_id: "req_1" })).toEqual({ model: "fast-chat" });
});

describe("the model of an example", () => {
  const exampleModels = (id: string, models: readonly string[]) =>
    buildExamples(findOperation(id) ?? firstOperation(), models).map(({ text }) => JSON.parse(text).model);

  test("is one of the demo without a key", () => {
    expect(exampleModels("createEmbeddings", [])).toEqual(["sim-embed", "sim-embed"]);
    expect(exampleModels("generateImages", [])).toEqual(["sim-image"]);
    expect(exampleModels("openResponsesSocket", [])).toEqual(["sim-fast", "sim-fast"]);
    for (const [name, id] of Object.entries(DEMO_MODELS)) {
      const created = CREATED_DEMO_MODELS.find((model) => model.id === id);
      expect(created?.interfaces.map(String)).toContain(name);
    }
  });

  test("is one that the key can call with the endpoint", () => {
    const embeddings = findOperation("createEmbeddings") ?? firstOperation();
    const served = modelsFor(embeddings, [
      { id: "talker", interfaces: ["chat"] },
      { id: "embedder", interfaces: ["embeddings"] },
    ]);
    expect(exampleModels("createEmbeddings", served)).toEqual(["embedder", "embedder"]);
    expect(exampleModels("createChatCompletion", ["other", "fast-chat"])).toEqual(["fast-chat", "fast-chat"]);
    expect(exampleModels("createChatCompletion", ["other", "sim-fast"])).toEqual(["sim-fast", "sim-fast"]);
  });
});
