/** Members by which an upstream such as OpenRouter or LiteLLM serves a request by another model, at that model's price. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { gatewayFile, type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { openSocketClient } from "../support/turn-client.ts";

let gateway: RunningGateway;

const MESSAGES = '"model":"fast-chat","max_tokens":9,"messages":[{"role":"user","content":"hello"}]';
const RESPONSE = '"model":"fast-chat","input":"hello"';
const BODIES: readonly (readonly [path: string, fields: string])[] = [
  ["/v1/chat/completions", MESSAGES],
  ["/v1/messages", MESSAGES],
  ["/v1/responses", RESPONSE],
  ["/v1/embeddings", RESPONSE],
];
const CHOICES: readonly (readonly [member: string, field: string])[] = [
  ['"models":["dear"]', "models"],
  ['"mod\\u0065ls":["dear"]', "models"],
  ['"models":"dear"', "models"],
  ['"fallbacks":["dear"]', "fallbacks"],
];

beforeAll(async () => {
  gateway = await startTestGateway({ file: gatewayFile({}).replaceAll("[chat,", "[messages, chat,") });
});
afterAll(() => gateway.stop());

const send = (path: string, body: string) =>
  gateway.call(path, undefined, { method: "POST", body, headers: { "content-type": "application/json" } });

test.each(BODIES)(
  "POST %s with a choice of models is rejected and reaches no upstream",
  async (path, fields) => {
    expect((await send(path, `{${fields}}`)).status).toBe(200);
    const { requests } = gateway.simulator.ledger.totals();
    // Beyond 256 KiB a thread reads the body.
    const padding = `"metadata":{"a":"${"a".repeat(300_000)}"}`;
    for (const [member, param] of CHOICES) {
      for (const body of [`{${member},${fields}}`, `{${fields},${padding},${member}}`]) {
        const response = await send(path, body);
        // The errors of Messages have no code.
        expect([member, response.status, await response.text()]).toEqual([
          member,
          400,
          expect.stringContaining(`\`${param}\` is not supported`),
        ]);
      }
    }
    expect(gateway.simulator.ledger.totals().requests).toBe(requests);
    expect((await send(path, `{${fields},"models":null}`)).status).toBe(200);
  },
);

test("a turn on a WebSocket with a choice of models is rejected", async () => {
  const client = await openSocketClient(gateway.url);
  const { last } = await client.turn({ model: "fast-chat", input: "hello", models: ["dear"] });
  expect(last).toMatchObject({ type: "error", error: { code: "unsupported_parameter", param: "models" } });
  client.close();
});
