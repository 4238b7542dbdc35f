/** OpenAI's SDK reads what the gateway makes of responses that OpenAI's API does not have. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import OpenAI from "openai";
import { eventStream } from "../support/canned-upstream.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";

const URL_CITED = "https://example.com/simulator";

let answer: () => Response;
let upstream: ReturnType<typeof Bun.serve>;
let gateway: RunningGateway;
let client: OpenAI;

beforeAll(async () => {
  upstream = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => answer() });
  const simulator = ["$", "{SIMULATOR_URL}"].join("");
  const scripted = `http://127.0.0.1:${upstream.port}/v1`;
  const account = { credential: "credential", private_network: true };
  const interfaces = ["chat", "responses", "embeddings"];
  gateway = await startTestGateway({
    file: JSON.stringify({
      models: ["finder", "claude", "numbers"].map((id) => ({ id, interfaces })),
      accounts: [
        {
          ...account,
          name: "search",
          kind: "anthropic",
          base_url: simulator,
          models: { finder: "sim-search" },
        },
        { ...account, name: "anthropic", kind: "anthropic", base_url: scripted, models: { claude: "up" } },
        { ...account, name: "vectors", kind: "openai", base_url: scripted, models: { numbers: "up" } },
      ],
      groups: [
        {
          name: "default",
          interfaces,
          models: ["finder", "claude", "numbers"],
          accounts: ["search", "anthropic", "vectors"],
        },
      ],
      keys: [{ name: "test", group: "default", secret: TEST_KEY }],
    }),
  });
  client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: TEST_KEY, maxRetries: 0 });
});

afterAll(async () => {
  await gateway.stop();
  await upstream.stop(true);
});

test("a search of an Anthropic account is accepted event by event", async () => {
  const stream = client.responses.stream({
    model: "finder",
    input: "What is new?",
    tools: [{ type: "web_search" }],
  });
  const { output } = await stream.finalResponse();
  expect(output).toMatchObject([
    { type: "web_search_call", status: "completed", action: { type: "search", query: "simulator" } },
    { type: "message", content: [{ annotations: [{ type: "url_citation", url: URL_CITED }] }] },
  ]);
  const completion = client.chat.completions.stream({
    model: "finder",
    messages: [{ role: "user", content: "What is new?" }],
    web_search_options: {},
  });
  expect((await completion.finalChatCompletion()).choices[0]?.message.content).toContain("What is new?");
});

test("citations of several texts arrive together in the stream helper", async () => {
  const cite = (index: number, text: string) => [
    { type: "content_block_start", index, content_block: { type: "text", text: "" } },
    { type: "content_block_delta", index, delta: { type: "text_delta", text } },
    {
      type: "content_block_delta",
      index,
      delta: {
        type: "citations_delta",
        citation: { type: "web_search_result_location", url: `https://${index}.example`, title: text },
      },
    },
    { type: "content_block_stop", index },
  ];
  const events = [
    { type: "message_start", message: { id: "m", usage: { input_tokens: 9, output_tokens: 1 } } },
    ...cite(0, "One. "),
    ...cite(1, "Two."),
    { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 7 } },
    { type: "message_stop" },
  ];
  answer = () => eventStream(events.map((event) => `data: ${JSON.stringify(event)}\n\n`));
  const stream = client.chat.completions.stream({
    model: "claude",
    messages: [{ role: "user", content: "What is new?" }],
  });
  const { message } = (await stream.finalChatCompletion()).choices[0] ?? {};
  expect(message?.content).toBe("One. Two.");
  expect(message?.annotations).toMatchObject([
    { url_citation: { url: "https://0.example", start_index: 0, end_index: 5 } },
    { url_citation: { url: "https://1.example", start_index: 5, end_index: 9 } },
  ]);
});

test("embeddings of an upstream that returns only numbers arrive packed and as numbers", async () => {
  const vectors = [[0.5, -2.25, 3], [1e-3]];
  const data = vectors.map((embedding, i) => ({ object: "embedding", index: 1 - i, embedding }));
  const usage = { prompt_tokens: 5, total_tokens: 5 };
  answer = () => Response.json({ object: "list", data, model: "up", usage });
  const read = await client.embeddings.create({ model: "numbers", input: ["a", "b"] });
  expect(read.data.map(({ embedding }) => embedding)).toEqual(vectors.map((v) => [...Float32Array.from(v)]));
  const plain = await client.embeddings.create({ model: "numbers", input: ["a"], encoding_format: "float" });
  expect(plain.data.map(({ embedding }) => embedding)).toEqual(vectors);
});
