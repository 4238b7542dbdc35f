/**
 * A hostile upstream cannot make the gateway work, keep or send much more than it sends itself. The upstream is a
 * process of its own, and each attack is judged by the CPU time and the memory of the gateway's process, and by the
 * bytes that the client receives.
 */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import { TEST_KEY } from "../support/running-gateway.ts";
import {
  type AttackTarget,
  buildAttackFile,
  DIALECTS,
  type Dialect,
  listDialectAccounts,
  measureAttack,
  startAttackTarget,
} from "./attack-setup.ts";

setDefaultTimeout(120_000);

const MiB = 1024 * 1024;

/** The attack, the dialect of the upstream, and the clients that it harmed most. */
const ATTACKS: readonly [attack: string, upstream: Dialect, clients: readonly Dialect[]][] = [
  ["calls-without-names", "chat", ["responses"]],
  ["arguments-without-a-name", "chat", ["messages"]],
  ["colliding-call-ids", "chat", ["responses", "gemini"]],
  ["open-calls", "chat", ["messages"]],
  ["annotations", "chat", ["responses", "gemini"]],
  ["an-event-of-objects", "chat", ["messages"]],
  ["an-event-of-escapes", "chat", ["responses"]],
  ["repeated-deltas", "chat", ["chat"]],
  ["usage-after-passes", "messages", ["messages", "chat"]],
  ["open-blocks", "messages", ["chat"]],
  ["citations", "messages", ["gemini", "responses"]],
  ["usage-members", "messages", ["chat"]],
  ["searches-in-progress", "messages", ["gemini"]],
  ["parts-of-reasoning", "responses", ["messages"]],
  ["short-parts", "gemini", ["responses", "messages"]],
  ["sources", "gemini", ["chat"]],
];

/** The shortest events cost the most: 30 to 60 ms for each MiB. The smallest attacks are mostly noise. */
const CPU_MS_BASE = 400;
const CPU_MS_PER_MIB = 120;
const MEMORY_MAX = 192 * MiB;
/** A Responses client receives each text five times. */
const RECEIVED_BYTES_BASE = 256 * 1024;
const RECEIVED_MAX = 6;

let upstream: Bun.Subprocess<"ignore", "pipe", "inherit">;
let origin = "";
let target: AttackTarget;

beforeAll(async () => {
  upstream = Bun.spawn([process.execPath, join(import.meta.dir, "hostile-upstream.ts")], {
    stdin: "ignore",
    stdout: "pipe",
    stderr: "inherit",
  });
  const { value } = await upstream.stdout.getReader().read();
  origin = new TextDecoder().decode(value).trim();
  const accounts = listDialectAccounts((dialect) =>
    ATTACKS.flatMap(([attack, of]) => (of === dialect ? [attack] : [])),
  );
  target = await startAttackTarget({ file: buildAttackFile(origin, DIALECTS, accounts) });
  // The first requests compile the code.
  for (const client of DIALECTS) await send(client, "citations");
});
afterAll(async () => {
  await target?.stop();
  upstream.kill();
  await upstream.exited;
});

const PATHS = { chat: "/v1/chat/completions", responses: "/v1/responses", messages: "/v1/messages" };

function buildRequest(client: Dialect, model: string): [path: string, body: object] {
  const turn = [{ role: "user", content: "Hello" }];
  switch (client) {
    case "chat":
      return [PATHS.chat, { model, messages: turn, stream: true }];
    case "responses":
      return [PATHS.responses, { model, input: turn, stream: true }];
    case "messages":
      return [PATHS.messages, { model, messages: turn, max_tokens: 100, stream: true }];
    case "gemini":
      return [
        `/v1beta/models/${model}:streamGenerateContent?alt=sse`,
        { contents: [{ role: "user", parts: [{ text: "Hello" }] }] },
      ];
  }
}

const ENDS = /\[DONE\]|"error":|"type":"message_stop"|"finishReason":/;

interface Received {
  readonly bytes: number;
  readonly status: number;
  /** The stream has an end of its dialect, or an error. */
  readonly hasEnd: boolean;
}

async function send(client: Dialect, model: string): Promise<Received> {
  const [path, body] = buildRequest(client, model);
  const response = await fetch(`${target.url}${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${TEST_KEY}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  let bytes = 0;
  let hasEnd = false;
  let last = "";
  for await (const piece of response.body ?? []) {
    bytes += piece.length;
    const text = last + Buffer.from(piece).toString();
    hasEnd ||= ENDS.test(text);
    last = text.slice(-100);
  }
  return { bytes, hasEnd, status: response.status };
}

async function takeSentBytes(): Promise<number> {
  return ((await (await fetch(origin)).json()) as { sent: number }).sent;
}

test.each(
  ATTACKS.flatMap(([attack, dialect, clients]) =>
    clients.map((client) => [attack, dialect, client] as const),
  ),
)("%s of an upstream with %s, for a client of %s", async (attack, _, client) => {
  await takeSentBytes();
  let received: Received = { bytes: 0, hasEnd: false, status: 0 };
  const bytes = JSON.stringify(buildRequest(client, attack)).length;
  const run = async () => {
    received = await send(client, attack);
  };
  const report = await measureAttack(`${attack} → ${client}`, target, { bytes, run });
  const sent = await takeSentBytes();
  console.log(`  sent ${sent} bytes, received ${received.bytes} bytes with status ${received.status}`);
  expect(received.hasEnd).toBe(true);
  expect(report.cpuMs).toBeLessThan(CPU_MS_BASE + (CPU_MS_PER_MIB * sent) / MiB);
  expect(report.memoryGrowthBytes).toBeLessThan(MEMORY_MAX);
  expect(received.bytes).toBeLessThan(RECEIVED_BYTES_BASE + RECEIVED_MAX * sent);
});
