/** Public names are the operator's to choose: whatever they hold, they go in, come out and can be asked for. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { modelsIn } from "./models-in.ts";
import { type RunningGateway, startTestGateway } from "./running-gateway.ts";

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

test("are listed as they were written, in that order", async () => {
  const list = (await (await gateway.call("/v1/models")).json()) as {
    object: string;
    data: { id: string }[];
  };
  expect(list.object).toBe("list");
  expect(list.data.map(({ id }) => id)).toEqual(NAMES);
});

describe.each(NAMES)("the model %p", (name) => {
  test("is found by its name, percent-encoded as clients do", async () => {
    for (const path of [encodeURIComponent(name), encodeURIComponent(name).replaceAll("%2F", "/")]) {
      const response = await gateway.call(`/v1/models/${path}`);
      expect(await response.json()).toMatchObject({ id: name, object: "model" });
    }
  });

  test("answers under its own name, in every family and stream", async () => {
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
      const answers = text.startsWith("{") ? [text] : (text.match(/(?<=^data: )\{.*$/gm) ?? []);
      const named = modelsIn(answers.map((answer) => JSON.parse(answer)));
      expect(named.length).toBeGreaterThan(0);
      expect(new Set(named)).toEqual(new Set([name]));
      expect(gateway.simulator.ledger.last()?.model).toBe("sim-fast");
    }
  });
});
