/** OpenAI's own search for tools leaves items without a call id in a conversation, which then moves to another vendor. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import {
  chatCompletion,
  type Json,
  startVendorGateway,
  VENDOR_MODEL,
  type VendorGateway,
} from "./vendor-gateway.ts";

interface ChatTool {
  readonly function: { readonly name: string };
}

const readNames = ({ tools = [] }: { tools?: readonly ChatTool[] }) =>
  tools.map((tool) => tool.function.name);

let gateway: VendorGateway;

beforeAll(async () => {
  gateway = await startVendorGateway([
    {
      account: { kind: "openai", interfaces: ["chat"] },
      respond({ body }) {
        const names = readNames(body);
        if (new Set(names).size < names.length)
          return Response.json({ error: { message: "Tool names must be unique." } }, { status: 400 });
        return chatCompletion({ content: "Sunny" });
      },
    },
  ]);
});
afterAll(() => gateway.stop());

const parameters = { type: "object", properties: { city: { type: "string" } } };
const weather = {
  type: "function",
  name: "weather",
  description: "The weather",
  parameters,
  defer_loading: true,
};
const shipping = { type: "function", name: "track", parameters, defer_loading: true };
const search = {
  type: "tool_search_call",
  id: "tsc_1",
  call_id: null,
  execution: "server",
  status: "completed",
  arguments: { paths: ["weather"] },
};
const found = (tools: object[]) => ({
  type: "tool_search_output",
  id: "tso_1",
  call_id: null,
  execution: "server",
  status: "completed",
  tools,
});
const call = {
  type: "function_call",
  call_id: "call_1",
  name: "weather",
  namespace: "weather",
  arguments: "{}",
};
const output = { type: "function_call_output", call_id: "call_1", output: "22 degrees" };
const user = { role: "user", content: "How is the weather?" };

async function send(tools: object[], input: object[]) {
  const response = await gateway.call("/v1/responses", { model: VENDOR_MODEL, store: false, tools, input });
  expect([response.status, ((await response.json()) as Json).error ?? null]).toEqual([200, null]);
  return {
    dropped: response.headers.get("x-gateway-dropped"),
    body: gateway.received[0]?.at(-1)?.body ?? {},
  };
}

test("the pair of a search is dropped and named, and a deferred tool keeps its name in tools and calls", async () => {
  const tools = [weather, { type: "tool_search" }];
  const { dropped, body } = await send(tools, [user, search, found([weather]), call, output]);
  expect(readNames(body)).toEqual(["weather"]);
  expect(body.messages).toMatchObject([
    { role: "user" },
    { role: "assistant", tool_calls: [{ id: "call_1", function: { name: "weather" } }] },
    { role: "tool", tool_call_id: "call_1", content: "22 degrees" },
  ]);
  expect(dropped?.split(",").map((name) => name.trim())).toEqual([
    "tools[1].tool_search",
    "input[1].tool_search_call",
    "input[2].tool_search_output",
  ]);
});

test("tools that only the search has found are offered", async () => {
  const { body } = await send(
    [weather, { type: "tool_search" }],
    [user, search, found([weather, shipping]), call, output],
  );
  expect(readNames(body)).toEqual(["weather", "track"]);
});

test("a tool of a namespace that has the same name stays in it", async () => {
  const namespace = { type: "namespace", name: "weather", tools: [weather] };
  const { body } = await send([namespace], [user, call, output]);
  expect(readNames(body)).toEqual(["weather__weather"]);
  expect(body.messages).toMatchObject([{}, { tool_calls: [{ function: { name: "weather__weather" } }] }, {}]);
});
