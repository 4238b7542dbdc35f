/** Public model names may contain any characters: they are listed, returned and retrieved unchanged. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { modelsIn } from "../support/collect-models.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";

const NAMES = [
  "vendor/model",
  "a/b/c:free",
  "100%",
  "%2F",
  "q?x=1&y#z",
  'say"hi"\\back',
  "größe-模型-😀",
  "models",
  "v1/models",
  "+plus",
  "x".repeat(256),
];

let gateway: RunningGateway;

beforeAll(async () => {
  gateway = await startTestGateway({ models: Object.fromEntries(NAMES.map((name) => [name, "sim-fast"])) });
});

afterAll(() => gateway.stop());

test("models are listed with their configured names, in order", async () => {
  const list = (await (await gateway.call("/v1/models")).json()) as {
    object: string;
    data: { id: string }[];
  };
  expect(list.object).toBe("list");
  expect(list.data.map(({ id }) => id)).toEqual(NAMES);
});

describe("the model list for Codex", () => {
  const ask = () => gateway.call("/v1/models?client_version=0.166.0");

  test("has the standard rows and Codex's own rows, in the same order", async () => {
    const standard = (await (await gateway.call("/v1/models")).json()) as object;
    const { models, ...rest } = (await (await ask()).json()) as { models: Record<string, unknown>[] };
    expect(rest).toEqual(standard);
    expect(models.map(({ slug }) => slug)).toEqual(NAMES);
    expect(models.map(({ priority }) => priority)).toEqual(NAMES.map((_, i) => i));
    expect(models[0]).toEqual({
      slug: NAMES[0],
      display_name: NAMES[0],
      supported_reasoning_levels: [],
      shell_type: "shell_command",
      visibility: "list",
      supported_in_api: true,
      priority: 0,
      support_verbosity: false,
      truncation_policy: { mode: "bytes", limit: 10_000 },
      model_messages: { instructions_template: expect.stringMatching(/^You are a coding agent\./) },
      experimental_supported_tools: [],
      apply_patch_tool_type: "freeform",
    });
  });

  test("keeps its ETag while its content is unchanged", async () => {
    const [first, second] = [await ask(), await ask()];
    expect(first.headers.get("etag")).toMatch(/^"[0-9a-f]+"$/);
    expect(second.headers.get("etag")).toBe(first.headers.get("etag"));
    expect((await gateway.call("/v1/models")).headers.has("etag")).toBe(false);
    const others = await startTestGateway({ models: { "vendor/model": "sim-fast" } });
    const other = await others.call("/v1/models?client_version=0.166.0");
    expect(other.headers.get("etag")).not.toBe(first.headers.get("etag"));
    await others.stop();
  });

  test("omits models without Responses and models that Codex knows, and includes a known context size", async () => {
    const others = await startTestGateway({
      file: `
models:
  - { id: known, interfaces: [responses], context_tokens: 128000 }
  - { id: only-chat, interfaces: [chat] }
  - { id: gpt-5.5, interfaces: [responses] }
  - { id: codex-mini, interfaces: [responses] }
accounts:
  - { name: sim, kind: openai, base_url: "\${SIMULATOR_URL}", credential: a, private_network: true, models: { "*": "*" } }
groups:
  - { name: default, models: [known, only-chat, gpt-5.5, codex-mini], accounts: [sim] }
keys:
  - { name: test, group: default, secret: ${TEST_KEY} }
`,
    });
    const response = await others.call("/v1/models?client_version=1");
    expect(await response.json()).toMatchObject({
      data: [{ id: "known" }, { id: "only-chat" }, { id: "gpt-5.5" }, { id: "codex-mini" }],
      models: [{ slug: "known", context_window: 128_000, max_context_window: 128_000 }],
    });
    await others.stop();
  });
});

describe.each(NAMES)("the model %p", (name) => {
  test("is retrieved by its percent-encoded name", async () => {
    for (const path of [encodeURIComponent(name), encodeURIComponent(name).replaceAll("%2F", "/")]) {
      const response = await gateway.call(`/v1/models/${path}`);
      expect(await response.json()).toMatchObject({ id: name, object: "model" });
    }
  });

  test("is returned under its public name by every interface, whole and streamed", async () => {
    const calls: [string, object][] = [
      ["/v1/chat/completions", { messages: [{ role: "user", content: "Hello" }] }],
      ["/v1/chat/completions", { messages: [{ role: "user", content: "Hello" }], stream: true }],
      ["/v1/responses", { input: "Hello" }],
      ["/v1/responses", { input: "Hello", stream: true }],
      ["/v1/embeddings", { input: "Hello" }],
    ];
    for (const [path, body] of calls) {
      const response = await gateway.call(path, { model: name, ...body });
      const text = await response.text();
      expect(response.status).toBe(200);
      const responses = text.startsWith("{") ? [text] : (text.match(/(?<=^data: )\{.*$/gm) ?? []);
      const named = modelsIn(responses.map((received) => JSON.parse(received)));
      expect(named.length).toBeGreaterThan(0);
      expect(new Set(named)).toEqual(new Set([name]));
      expect(gateway.simulator.ledger.last()?.model).toBe("sim-fast");
    }
  });
});
