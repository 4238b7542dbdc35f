/** Options that the simulator does not support: its errors reach clients of the gateway unchanged. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";

let gateway: RunningGateway;
beforeAll(async () => {
  gateway = await startTestGateway();
});
afterAll(() => gateway.stop());

const messages = [{ role: "user", content: "Hello" }];
const tool_choice = { type: "function", function: { name: "zap" } };

test.each([
  ["/v1/images/generations", { prompt: "a boat", response_format: "url" }, "response_format"],
  ["/v1/images/generations", { prompt: "a boat", size: "9x99999" }, "size"],
  ["/v1/chat/completions", { messages, stop: "" }, "stop"],
  ["/v1/chat/completions", { messages, top_logprobs: 3 }, "top_logprobs"],
  ["/v1/chat/completions", { messages, tools: [], tool_choice }, "tool_choice"],
  ["/v1/responses", { input: "Hello", stop: "x" }, "stop"],
] as const)("%s %j is rejected for %s", async (path, body, param) => {
  for (const stream of [false, true]) {
    const response = await gateway.call(path, { model: "fast-chat", stream, ...body });
    expect(response.status).toBe(400);
    const { error } = (await response.json()) as { error: { param: string; message: string } };
    expect(error.param).toBe(param);
    expect(error.message).toContain(`'${param}'`);
    expect(error.message).not.toContain("[redacted]");
  }
});
