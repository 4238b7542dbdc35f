/** What a client sees of requests that were refused too often to have a record each. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { type RunningGateway, startTestGateway, TEST_KEY } from "./running-gateway.ts";

let gateway: RunningGateway;

beforeAll(async () => {
  gateway = await startTestGateway({
    limits: { refusalRows: { rowsPerMinute: 2, kindsMax: 100 } },
    file: `
models:
  - { id: fast, interfaces: [chat] }
accounts:
  - { name: sim, kind: openai, base_url: "\${SIMULATOR_URL}", credential: a, private_network: true, models: { fast: sim-fast } }
groups:
  - { name: default, models: [fast], accounts: [sim] }
keys:
  - { name: test, group: default, secret: ${TEST_KEY}, limits: { rpm: 1 } }
`,
  });
});

afterAll(() => gateway.stop());

test("a refusal without a record of its own is answered with a 404 that says why", async () => {
  const ids: string[] = [];
  for (let i = 0; i < 5; i++) {
    const response = await gateway.call("/v1/chat/completions", {
      model: "fast",
      messages: [{ role: "user", content: "Hello" }],
    });
    await response.arrayBuffer();
    ids.push(response.headers.get("x-request-id") ?? "");
  }
  const recorded = await gateway.call(`/v1/requests/${ids[1]}`);
  expect(await recorded.json()).toMatchObject({ id: ids[1], outcome: "refused", request_count: 1 });
  const counted = await gateway.call(`/v1/requests/${ids[4]}`);
  expect(counted.status).toBe(404);
  expect(await counted.json()).toMatchObject({
    error: { code: "request_not_found", message: expect.stringContaining("counted together") },
  });
});
