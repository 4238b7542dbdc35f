/** A model with `searches=N` searches the web that often, in each dialect that reports it. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Simulator, startSimulator } from "./simulator.ts";

const MODEL = "sim-fast@searches=3";
const MESSAGES = [{ role: "user", content: "What is new?" }];

let simulator: Simulator;
beforeAll(() => {
  simulator = startSimulator({ seed: 1 });
});
afterAll(() => simulator.stop());

async function send(path: string, body: object): Promise<string> {
  const response = await fetch(simulator.url + path, {
    method: "POST",
    headers: { "content-type": "application/json", "anthropic-version": "2023-06-01" },
    body: JSON.stringify(body),
  });
  expect(response.status).toBe(200);
  return response.text();
}

test("Responses have an item for each search, whole and in a stream", async () => {
  const body = { model: MODEL, input: "What is new?", tools: [{ type: "web_search" }], max_tool_calls: 1 };
  const { output } = JSON.parse(await send("/responses", body));
  expect(output.map(({ type }: { type: string }) => type)).toEqual([
    ...Array.from({ length: 3 }, () => "web_search_call"),
    "message",
  ]);
  const stream = await send("/responses", { ...body, stream: true });
  expect(stream.match(/event: response\.web_search_call\.completed/g)).toHaveLength(3);
});

test("Messages report them in the usage", async () => {
  const tools = [{ type: "web_search_20250305", name: "web_search", max_uses: 1 }];
  const { usage } = JSON.parse(
    await send("/messages", { model: MODEL, messages: MESSAGES, max_tokens: 100, tools }),
  );
  expect(usage.server_tool_use.web_search_requests).toBe(3);
});

test("a request that offers no search makes none", async () => {
  const { output } = JSON.parse(await send("/responses", { model: MODEL, input: "What is new?" }));
  expect(output).toHaveLength(1);
});
