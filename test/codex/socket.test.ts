/** The real Codex over a WebSocket: a conversation stays on one connection and survives failures. */

import { afterEach, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { listKeys, revokeKey } from "../../src/store/policy/keys.ts";
import { eventually } from "../support/eventually.ts";
import { seenBy } from "../support/pooled-gateway.ts";
import { completed, openScene, type Scene, sent } from "./codex-setup.ts";
import { startCodingModel } from "./coding-model.ts";

const UPGRADE = "GET /v1/responses";
const POST = "POST /v1/responses";
/** A turn that fails is retried on a new connection. */
const ONE_REPEAT = { stream_max_retries: 1 };

let scene: Scene | null = null;

afterEach(async () => {
  await scene?.close();
  scene = null;
});

async function open(...setup: Parameters<typeof openScene>): Promise<Scene> {
  scene = await openScene(...setup);
  return scene;
}

describe.each([
  ["by HTTP", false],
  ["over sockets", true],
])("with accounts that are called %s", (_, websocket) => {
  const tools = { models: { pooled: "sim-tools" }, websocket };
  const fast = { models: { pooled: "sim-fast" }, websocket };

  test("turns and tools share one connection; each sends only new input and is one request", async () => {
    const { gateway, tap, converse } = await open({ accounts: [tools] });
    const conversation = await converse();
    for (const text of ["First", "Second", "Third"]) {
      const turn = await conversation.say(text);
      expect(turn).toMatchObject({ status: "completed", failure: null });
      expect(turn.commands).toEqual([{ command: expect.stringContaining("echo hello"), output: "hello\n" }]);
      expect(turn.messages).toEqual([expect.stringContaining("Output: hello")]);
    }
    expect(tap.requests).toEqual([UPGRADE]);
    const [warmUp, ...turns] = sent(tap);
    expect(warmUp).toMatchObject({ generate: false });
    expect(turns).toHaveLength(6);
    expect(turns.map((turn) => turn.previous_response_id)).toEqual(completed(tap).slice(0, -1));
    const rows = await gateway.usageRows();
    expect(rows.map(({ outcome }) => outcome)).toEqual(Array(6).fill("completed"));
    expect(seenBy(gateway)).toEqual([6]);
    expect(gateway.upstreams[0]?.ledger.sockets().opened).toBe(websocket ? 1 : 0);
  });

  test("a turn keeps its account by its turn-state token", async () => {
    const { tap, converse } = await open({ accounts: [tools, tools] });
    expect(await (await converse()).say("Hello")).toMatchObject({ status: "completed" });
    const given = tap.messages.find(({ message }) => message.type === "response.metadata")?.message.headers;
    expect(given).toMatchObject({ "x-codex-turn-state": expect.any(String) });
    const [, , afterTool] = sent(tap);
    expect(afterTool?.client_metadata).toMatchObject({ ...Object(given) });
  });

  test("the tools of a model built into Codex are forwarded unchanged with their header", async () => {
    const own = { models: { "gpt-6-sol": "sim-fast" }, websocket };
    const { gateway, codex } = await open({ accounts: [own] });
    expect(await codex({ model: "gpt-6-sol" }).ask("Hello")).toMatchObject({ exitCode: 0, notices: [] });
    const ledger = gateway.upstreams[0]?.ledger;
    const asked = ledger?.last();
    expect(asked?.headers).toMatchObject({ "x-openai-internal-codex-responses-lite": "true" });
    const body = JSON.parse(Buffer.from(ledger?.findBody(asked?.id ?? "") ?? []).toString());
    expect(body.input[0]).toMatchObject({ type: "additional_tools", role: "developer" });
  });

  test("a long silence does not end the turn", async () => {
    const silent = { models: { pooled: "fault/stall@chunk5,4s" }, websocket };
    const { tap, converse } = await open({
      accounts: [silent],
      limits: { keepAliveMs: 200, silentReasoningMs: 300, keepAliveTickMs: 50 },
    });
    const conversation = await converse({ provider: { stream_idle_timeout_ms: 2_000 } });
    expect(await conversation.say("Think")).toMatchObject({ status: "completed", failure: null });
    expect(tap.requests).toEqual([UPGRADE]);
  });

  test("an account that stops between two turns is replaced without an error", async () => {
    const { gateway, tap, converse } = await open({ accounts: [fast, { ...fast, priority: 2 }] });
    const conversation = await converse();
    expect(await conversation.say("First")).toMatchObject({ status: "completed" });
    await gateway.upstreams[0]?.stop();
    expect(await conversation.say("Second")).toMatchObject({ status: "completed", failure: null });
    expect(tap.requests).toEqual([UPGRADE]);
    const asked = gateway.upstreams[1]?.ledger.last();
    const body = Buffer.from(gateway.upstreams[1]?.ledger.findBody(asked?.id ?? "") ?? []).toString();
    const expectedTexts = ['"First"', '"role":"assistant"', '"Second"'];
    expect(expectedTexts.filter((text) => body.includes(text))).toEqual(expectedTexts);
  });

  test("an account that disconnects in the middle costs one retry of the turn", async () => {
    const { gateway, tap, converse } = await open({ accounts: [fast] });
    const conversation = await converse({ provider: ONE_REPEAT });
    expect(await conversation.say("First")).toMatchObject({ status: "completed" });
    gateway.upstreams[0]?.force("rst@chunk8", 1);
    expect(await conversation.say("Second")).toMatchObject({ status: "completed", failure: null });
    expect(tap.requests).toEqual([UPGRADE, UPGRADE]);
    const rows = await gateway.usageRows();
    expect(rows.map(({ outcome }) => outcome)).toEqual(["completed", "upstream_cut", "completed"]);
  });
});

test("a changed file is written to disk", async () => {
  const coder = startCodingModel();
  try {
    const { tap, codex } = await open({ accounts: [{ url: coder.url }] });
    const home = codex({ auth: "command" });
    const asked = await home.ask("patch: *** Begin Patch\n*** Add File: a.txt\n+One\n+Two\n*** End Patch");
    expect(asked).toMatchObject({ exitCode: 0, failure: null, notices: [] });
    expect(readFileSync(join(home.workspace, "a.txt"), "utf8")).toBe("One\nTwo\n");
    expect(tap.requests).not.toContain(POST);
    expect(JSON.stringify(coder.asked.at(-1)?.input)).toContain("custom_tool_call_output");
  } finally {
    await coder.stop();
  }
});

test("the user sees the used percentage of the key's windows", async () => {
  const { converse } = await open({
    accounts: [{}],
    keys: { limited: { limits: { windows: [{ per: "5h", requests: 4 }] } } },
  });
  const conversation = await converse({ key: "limited-key-0123456789012345678901234567" });
  expect(await conversation.say("Hello")).toMatchObject({ status: "completed" });
  const shown = await eventually(() => conversation.limits()?.primary);
  expect(shown).toMatchObject({ usedPercent: 25, windowDurationMins: 300 });
});

test("a connection that is cut in the middle of a turn costs one retry", async () => {
  const { tap, converse } = await open({
    accounts: [{ models: { pooled: "sim-fast@events=20,interval=50ms" } }],
  });
  const conversation = await converse({ provider: ONE_REPEAT });
  const turnInFlight = conversation.say("Hello");
  await eventually(() => tap.messages.some(({ message }) => message.type === "response.output_text.delta"));
  tap.cut();
  expect(await turnInFlight).toMatchObject({ status: "completed", failure: null });
  expect(tap.requests).toEqual([UPGRADE, UPGRADE]);
});

test("an interrupted turn aborts its upstream call, and the conversation continues", async () => {
  const { gateway, tap, converse } = await open({
    accounts: [{ models: { pooled: "sim-fast@events=100,interval=20ms" } }],
  });
  const conversation = await converse();
  const turnInFlight = conversation.say("Talk");
  await eventually(() => tap.messages.some(({ message }) => message.type === "response.output_text.delta"));
  await conversation.interrupt();
  expect(await turnInFlight).toMatchObject({ status: "interrupted" });
  const [upstream] = gateway.upstreams;
  await eventually(() => upstream?.ledger.totals().inFlight, { equals: 0 });
  expect(upstream?.ledger.last()).toMatchObject({ abortedByClient: true });
  await eventually(async () => (await gateway.usageRows()).length, { equals: 1 });
  expect(await gateway.usageRows()).toMatchObject([{ outcome: "client_gone" }]);
  expect(await conversation.say("Again")).toMatchObject({ status: "completed", failure: null });
});

test("a compacted conversation continues from its summary", async () => {
  const { gateway, tap, converse } = await open({ accounts: [{}] });
  const conversation = await converse();
  expect(await conversation.say("First")).toMatchObject({ status: "completed" });
  expect(await conversation.compact()).toMatchObject({ status: "completed", failure: null });
  expect(await conversation.say("Second")).toMatchObject({ status: "completed", failure: null });
  expect(sent(tap).at(-1)?.previous_response_id).toBeUndefined();
  expect(tap.requests).not.toContain(POST);
  expect(seenBy(gateway)).toEqual([3]);
});

describe("a gateway that is replaced by another process", () => {
  test("between two turns causes no error", async () => {
    const { gateway, tap, converse, takeOver } = await open({ accounts: [{}] });
    const conversation = await converse({ provider: ONE_REPEAT });
    expect(await conversation.say("First")).toMatchObject({ status: "completed" });
    const next = await takeOver();
    await gateway.stop();
    expect(await conversation.say("Second")).toMatchObject({ status: "completed", failure: null });
    expect(tap.requests).toEqual([UPGRADE, UPGRADE]);
    const [, , again] = sent(tap);
    expect(again?.previous_response_id).toBeUndefined();
    expect(seenBy(next)).toEqual([1]);
  });

  test("in the middle of a turn finishes it, and the next turn goes to the successor", async () => {
    const { gateway, tap, converse, takeOver } = await open({
      accounts: [{ models: { pooled: "sim-fast@events=20,interval=50ms" } }],
    });
    const conversation = await converse({ provider: ONE_REPEAT });
    const turnInFlight = conversation.say("First");
    await eventually(() => tap.messages.some(({ message }) => message.type === "response.output_text.delta"));
    const next = await takeOver();
    const stopped = gateway.stop();
    expect(await turnInFlight).toMatchObject({ status: "completed", failure: null });
    await stopped;
    expect(tap.requests).toEqual([UPGRADE]);
    expect(await conversation.say("Second")).toMatchObject({ status: "completed", failure: null });
    expect(seenBy(next)).toEqual([1]);
  });
});

test("a connection past its maximum age finishes its turn and is replaced", async () => {
  const { tap, converse } = await open({
    accounts: [{ models: { pooled: "sim-fast@events=10,interval=60ms" } }],
    limits: { socketAgeMs: 300, socketCheckIntervalMs: 20 },
  });
  const conversation = await converse({ provider: ONE_REPEAT });
  expect(await conversation.say("First")).toMatchObject({ status: "completed", failure: null });
  expect(await conversation.say("Second")).toMatchObject({ status: "completed", failure: null });
  expect(tap.requests.length).toBeGreaterThan(1);
  expect(tap.requests).not.toContain(POST);
});

test("a conversation too long for the socket's memory is sent in full", async () => {
  const { tap, converse } = await open({ accounts: [{}], limits: { socketMemoryBytesMax: 1_000 } });
  const conversation = await converse({ provider: ONE_REPEAT });
  expect(await conversation.say("First")).toMatchObject({ status: "completed", failure: null });
  expect(tap.requests).toEqual([UPGRADE, UPGRADE]);
  const rejections = tap.messages.filter(({ message }) => message.type === "error");
  expect(rejections.map(({ message }) => message.error)).toMatchObject([
    { code: "previous_response_not_found" },
  ]);
  expect(sent(tap).at(-1)?.previous_response_id).toBeUndefined();
});

test("revoking the key ends the conversation", async () => {
  const { gateway, tap, converse } = await open({ accounts: [{}] });
  const conversation = await converse();
  expect(await conversation.say("First")).toMatchObject({ status: "completed" });
  const { db, clock } = gateway.installation;
  for (const { id } of await listKeys(db)) await revokeKey(db, id, clock.nowMs());
  await eventually(async () => (await gateway.call("/v1/models")).status, { equals: 401 });
  const turn = await conversation.say("Second");
  expect(turn.status).toBe("failed");
  expect(turn.failure).toContain("Incorrect API key provided");
  expect(tap.requests.at(-1)).toBe(POST);
  expect(seenBy(gateway)).toEqual([1]);
});

test("a group without WebSocket is called over HTTP at once", async () => {
  const { tap, converse } = await open({ accounts: [{}], group: { websocket: false } });
  const conversation = await converse();
  expect(await conversation.say("First")).toMatchObject({ status: "completed", failure: null });
  expect(await conversation.say("Second")).toMatchObject({ status: "completed", failure: null });
  expect(tap.requests).toEqual([UPGRADE, POST, POST]);
});
