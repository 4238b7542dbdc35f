/** The real Codex over HTTP: its prompts, tools, conversations and model list. */

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import { type CodexHome, type CodexSetup, openCodex } from "./codex.ts";
import { type CodingModel, startCodingModel } from "./coding-model.ts";
import { type Conversation, startConversation } from "./conversation.ts";
import { tapWire, type WireTap } from "./wire-tap.ts";

let gateway: RunningGateway;
let coder: CodingModel;
let tap: WireTap;
let codex: CodexHome | null = null;
let conversation: Conversation | null = null;

beforeAll(async () => {
  coder = startCodingModel();
  gateway = await startTestGateway({
    environment: { CODER_URL: coder.url },
    file: `
models:
  - { id: fast, interfaces: [responses] }
  - { id: tool-user, interfaces: [responses] }
  - { id: coder, interfaces: [responses], context_tokens: 128000 }
  - { id: only-chat, interfaces: [chat] }
  - { id: gpt-5.5, interfaces: [responses] }
accounts:
  - { name: sim, kind: openai, base_url: "\${SIMULATOR_URL}", credential: a, private_network: true, models: { fast: sim-fast, tool-user: sim-tools, only-chat: sim-fast, gpt-5.5: sim-fast } }
  - { name: coder, kind: openai, base_url: "\${CODER_URL}", credential: b, private_network: true, models: { coder: coder } }
groups:
  - { name: default, models: [fast, tool-user, coder, only-chat, gpt-5.5], accounts: [sim, coder] }
keys:
  - { name: test, group: default, secret: ${TEST_KEY} }
`,
  });
  tap = await tapWire(gateway.url);
});

afterEach(async () => {
  await conversation?.end();
  conversation = null;
  codex?.remove();
  codex = null;
});

afterAll(async () => {
  await tap.stop();
  await gateway.stop();
  await coder.stop();
});

function open(model: string, more: Partial<CodexSetup> = {}): CodexHome {
  codex = openCodex({ url: tap.url, model, transport: "http", ...more });
  return codex;
}

test("a prompt gets a response, and both sides count the same tokens", async () => {
  const asked = await open("fast").ask("Say hello");
  expect(asked).toMatchObject({ exitCode: 0, failure: null });
  expect(asked.messages).toEqual([expect.stringContaining("Say hello")]);
  const row = (await gateway.usageRows()).at(-1);
  expect(asked.usage).toMatchObject({
    input_tokens: Number(row?.input_tokens),
    output_tokens: Number(row?.output_tokens),
  });
});

test("a tool is called and run, and its output is sent back", async () => {
  const asked = await open("tool-user").ask("Use a tool");
  expect(asked.failure).toBeNull();
  expect(asked.commands).toEqual([{ command: expect.stringContaining("echo hello"), output: "hello\n" }]);
  expect(asked.messages).toEqual([expect.stringContaining("Output: hello")]);
});

test("a conversation continues turn by turn with its full history", async () => {
  conversation = await startConversation(open("coder"));
  const first = coder.asked.length;
  const turns = [
    await conversation.say("My name is Ada"),
    await conversation.say("run: echo $((6 * 7))"),
    await conversation.say("And goodbye"),
  ];
  expect(turns.map(({ status }) => status)).toEqual(["completed", "completed", "completed"]);
  expect(turns[1]?.commands).toEqual([{ command: expect.stringContaining("6 * 7"), output: "42\n" }]);
  expect(turns[1]?.messages).toEqual([expect.stringContaining("42")]);
  const requests = coder.asked.slice(first);
  expect(requests).toHaveLength(4);
  const last = JSON.stringify(requests.at(-1)?.input);
  for (const earlier of ["My name is Ada", "You said: My name is Ada", "call_", "It gave:", "And goodbye"]) {
    expect(last).toContain(earlier);
  }
});

test("a conversation is resumed by another process", async () => {
  const home = open("coder");
  const { threadId } = await home.ask("My name is Ada");
  const asked = await home.resume(threadId, "What is my name?");
  expect(asked).toMatchObject({ exitCode: 0, messages: ["You said: What is my name?"] });
  expect(JSON.stringify(coder.asked.at(-1)?.input)).toContain("You said: My name is Ada");
});

describe("the model list", () => {
  test("is requested with the version, parsed, and enables the apply_patch tool", async () => {
    const home = open("coder", { auth: "command" });
    const before = tap.requests.length;
    const patch = "*** Begin Patch\n*** Add File: hello.txt\n+Hello from the model\n*** End Patch";
    const asked = await home.ask(`patch: ${patch}`);
    expect(asked).toMatchObject({ exitCode: 0, failure: null, notices: [] });
    expect(asked.complaints).not.toContain("failed to refresh available models");
    expect(tap.requests.slice(before)).toContain("GET /v1/models?client_version=0.166.0");
    expect(asked.files).toEqual([{ path: expect.stringContaining("hello.txt"), kind: "add" }]);
    expect(readFileSync(join(home.workspace, "hello.txt"), "utf8")).toBe("Hello from the model\n");
    const request = coder.asked.at(-1);
    expect(request?.tools?.map(({ name }) => name)).toContain("apply_patch");
    expect(JSON.stringify(request?.input)).toContain("custom_tool_call_output");
  });

  test("leaves out models that Codex has built in", async () => {
    const asked = await open("gpt-5.5", { auth: "command" }).ask("Say hello");
    expect(asked).toMatchObject({ exitCode: 0, notices: [] });
    const entry = gateway.simulator.ledger.last();
    const body = Buffer.from(gateway.simulator.ledger.findBody(entry?.id ?? "") ?? []).toString();
    expect(body).toContain("You are Codex");
  });
});
