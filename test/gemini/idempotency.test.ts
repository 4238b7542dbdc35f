/** `Idempotency-Key` on Gemini's API, whose requests have their model in the path and not in the body. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { RunningGateway } from "../support/running-gateway.ts";
import { callGemini, geminiFile, methodPath, startGeminiGateway, userTurn } from "./gemini-gateway.ts";

let gateway: RunningGateway;
beforeAll(async () => {
  gateway = await startGeminiGateway({
    file: geminiFile({
      "chat-a": "sim-fast",
      "chat-b": "sim-fast",
      "embed-a": "sim-embed",
      "embed-b": "sim-embed",
    }),
  });
});
afterAll(() => gateway.stop());

const CONTENT = { content: { parts: [{ text: "Hello" }] } };

test.each([
  ["generateContent", "chat", { contents: [userTurn("Hello")] }],
  ["streamGenerateContent?alt=sse", "chat", { contents: [userTurn("Hello")] }],
  ["embedContent", "embed", CONTENT],
  ["batchEmbedContents", "embed", { requests: [CONTENT] }],
])("%s: the same body for another model is another request", async (method, models, body) => {
  const send = (model: string) =>
    callGemini(gateway, methodPath(`${models}-${model}`, method), body, {
      headers: { "idempotency-key": `key of ${method}`.replaceAll(" ", "-") },
    });
  const first = await send("a");
  await first.text();
  expect(first.status).toBe(200);
  const sentBefore = gateway.simulator.ledger.totals().requests;
  const other = await send("b");
  expect([other.status, await other.text()]).toEqual([400, expect.stringContaining("had different content")]);
  const repeat = await send("a");
  await repeat.text();
  const isStored = !method.startsWith("stream") && Number(first.headers.get("content-length")) <= 65_536;
  expect([repeat.status, repeat.headers.get("idempotency-replayed")]).toEqual(
    isStored ? [200, "true"] : [409, null],
  );
  expect(gateway.simulator.ledger.totals().requests).toBe(sentBefore);
});
