/** The real Codex on an account that has Chat Completions only, over HTTP and over a WebSocket. */

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type CodexHome, type CodexSetup, openCodex } from "../codex/codex.ts";
import { type Conversation, startConversation } from "../codex/conversation.ts";
import { tapWire, type WireTap } from "../codex/wire-tap.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import { type ChatCodingModel, startChatCodingModel } from "./chat-coding-model.ts";

let gateway: RunningGateway;
let coder: ChatCodingModel;
let tap: WireTap;
let codex: CodexHome | null = null;
let conversation: Conversation | null = null;

beforeAll(async () => {
  coder = startChatCodingModel();
  gateway = await startTestGateway({
    environment: { CODER_URL: coder.url },
    file: `
models:
  - { id: coder, interfaces: [responses], context_tokens: 128000 }
  - { id: gpt-6-sol, interfaces: [responses] }
accounts:
  - { name: coder, kind: openai, base_url: "\${CODER_URL}", private_network: true, interfaces: [chat], models: { "*": "*" } }
groups:
  - { name: default, models: [coder, gpt-6-sol], accounts: [coder] }
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

function open(setup: Partial<CodexSetup>): CodexHome {
  codex = openCodex({ url: tap.url, model: "coder", transport: "http", ...setup });
  return codex;
}

const PATCH = "*** Begin Patch\n*** Add File: hello.txt\n+Hello from the model\n*** End Patch";

describe.each(["http", "websocket"] as const)("over %s", (transport) => {
  test("a conversation continues turn by turn, with commands that Codex runs", async () => {
    conversation = await startConversation(open({ transport }));
    const first = coder.requests.length;
    const turns = [
      await conversation.say("My name is Ada"),
      await conversation.say("run: echo $((6 * 7))"),
      await conversation.say("And goodbye"),
    ];
    expect(turns.map(({ status }) => status)).toEqual(["completed", "completed", "completed"]);
    expect(turns[1]?.commands).toEqual([{ command: expect.stringContaining("6 * 7"), output: "42\n" }]);
    expect(turns[1]?.messages).toEqual([expect.stringContaining("42")]);
    const requests = coder.requests.slice(first);
    expect(requests).toHaveLength(4);
    const roles = requests.at(-1)?.messages.map(({ role }) => role) ?? [];
    expect(roles[0]).toBe("system");
    expect(roles.filter((role) => role === "tool")).toHaveLength(1);
    expect(roles.indexOf("tool") - 1).toBe(roles.indexOf("assistant", roles.indexOf("assistant") + 1));
    const last = JSON.stringify(requests.at(-1)?.messages);
    for (const earlier of ["My name is Ada", "You said: My name is Ada", "It gave:", "And goodbye"])
      expect(last).toContain(earlier);
  });

  test("apply_patch, a custom tool, changes a file", async () => {
    const home = open({ transport, auth: "command" });
    const result = await home.ask(`patch: ${PATCH}`);
    expect(result).toMatchObject({ exitCode: 0, failure: null });
    expect(result.files).toEqual([{ path: expect.stringContaining("hello.txt"), kind: "add" }]);
    expect(readFileSync(join(home.workspace, "hello.txt"), "utf8")).toBe("Hello from the model\n");
    expect(coder.requests.at(-1)?.tools?.map((tool) => tool.function.name)).toContain("apply_patch");
  });
});

test("the tools of a built-in model, which Codex sends as items, are offered as functions", async () => {
  expect(await open({ model: "gpt-6-sol" }).ask("Hello")).toMatchObject({
    exitCode: 0,
    messages: ["You said: Hello"],
  });
  const names = coder.requests.at(-1)?.tools?.map((tool) => tool.function.name) ?? [];
  expect(names.length).toBeGreaterThan(0);
  expect(names.every((name) => /^[A-Za-z0-9_-]{1,64}$/.test(name))).toBe(true);
});
