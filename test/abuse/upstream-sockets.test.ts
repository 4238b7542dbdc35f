/** Long messages of a hostile upstream on a WebSocket. None holds the event loop, however it is written. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { TEST_KEY } from "../support/running-gateway.ts";
import { type AttackTarget, measureAttack, startAttackTarget } from "./attack-setup.ts";

setDefaultTimeout(120_000);

const MIB = 1024 * 1024;
/** Just within the length of one event. */
const LONG = 15 * MIB;
/** A model for each attack, because some of them make the upstream's model cool down. */
const MODELS = Array.from({ length: 16 }, (_, at) => `model${at}`);

let upstream: Bun.Server<undefined>;
let target: AttackTarget;
let messages: readonly string[] = [];

beforeAll(async () => {
  upstream = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: (request, server) =>
      server.upgrade(request) ? undefined : new Response("only WebSockets", { status: 500 }),
    websocket: {
      maxPayloadLength: 64 * MIB,
      backpressureLimit: 256 * MIB,
      message(socket) {
        for (const message of messages) socket.send(message);
      },
    },
  });
  target = await startAttackTarget({ file: buildFile(`http://127.0.0.1:${upstream.port}/v1`) });
  // The first requests compile the code.
  for (let run = 0; run < 10; run++) await request("model0", [CREATED, DELTA, COMPLETED]);
});
afterAll(async () => {
  await target?.stop();
  await upstream.stop(true);
});

function buildFile(baseUrl: string): string {
  return JSON.stringify({
    models: MODELS.map((id) => ({ id, interfaces: ["responses"] })),
    accounts: [
      {
        name: "hostile",
        kind: "openai",
        base_url: baseUrl,
        credential: "credential",
        private_network: true,
        websocket: true,
        models: Object.fromEntries(MODELS.map((model) => [model, model])),
      },
    ],
    groups: [{ name: "default", interfaces: ["responses"], models: MODELS, accounts: ["hostile"] }],
    users: [{ email: "dev@example.com", role: "user" }],
    keys: [{ name: "test", user: "dev@example.com", group: "default", secret: TEST_KEY }],
  });
}

const CREATED = '{"type":"response.created","response":{"id":"r","output":[]}}';
const DELTA = '{"type":"response.output_text.delta","delta":"a"}';
const COMPLETED =
  '{"type":"response.completed","response":{"id":"r","output":[],"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}}';

/** Resolves with what the client received until the end of its turn. */
async function request(model: string, sent: readonly string[]): Promise<string> {
  messages = sent;
  const headers = { authorization: `Bearer ${TEST_KEY}` };
  const socket = new WebSocket(`${target.url.replace(/^http/, "ws")}/v1/responses`, { headers });
  let received = "";
  try {
    await new Promise<void>((resolve, reject) => {
      socket.onopen = () => socket.send(JSON.stringify({ type: "response.create", model, input: "Hello" }));
      socket.onclose = () => reject(new Error("the gateway closed the connection"));
      socket.onmessage = ({ data }) => {
        received += data;
        if (END.test(String(data).slice(0, 64))) resolve();
      };
    });
  } finally {
    socket.onclose = null;
    socket.close();
  }
  return received;
}

const END = /^{"type":"(?:response\.(?:completed|incomplete|failed)|error)"/;

const list = (element: string, bytes = LONG) =>
  `[${`${element},`.repeat(bytes / (element.length + 1))}${element}]`;

const ATTACKS: Readonly<Record<string, readonly string[]>> = {
  "an error of short arrays": [`{"type":"error","status":500,"error":{"message":"a"},"x":${list("[]")}}`],
  "a line break after each value": [CREATED, `{\n"type":"response.x","x":${list("\n1")}}`, COMPLETED],
  "a plain text": [CREATED, DELTA, `{"type":"response.x","x":"${"word ".repeat(LONG / 5)}"}`, COMPLETED],
  "a plain text with one line break": [
    CREATED,
    DELTA,
    `{\n"type":"response.x","x":"${"word ".repeat(LONG / 5)}"}`,
    COMPLETED,
  ],
  "a type behind short arrays": [CREATED, DELTA, `{"x":${list("[]")},"type":"response.x"}`, COMPLETED],
  "a private event of short arrays": [
    `{"x":${list("[]")},"type":"codex.rate_limits"}`,
    CREATED,
    DELTA,
    COMPLETED,
  ],
  "a long type": [CREATED, DELTA, `{"type":"${"a".repeat(LONG)}"}`, COMPLETED],
  "a long type behind a member": [CREATED, DELTA, `{"x":1,"type":"${"a".repeat(LONG)}"}`, COMPLETED],
  "an id behind short arrays": [
    `{"type":"response.created","x":${list("[]")},"response":{"id":"r"}}`,
    DELTA,
    COMPLETED,
  ],
  "an end of short arrays": [
    CREATED,
    DELTA,
    `{"type":"response.completed","response":{"x":${list("[]")},"id":"r"}}`,
  ],
};

test.each(Object.entries(ATTACKS).map(([name, sent], at) => [name, `model${at + 1}`, sent] as const))(
  "%s",
  async (name, model, sent) => {
    const bytes = sent.reduce((sum, message) => sum + message.length, 0);
    let received = "";
    const { memoryGrowthBytes } = await measureAttack(`a WebSocket message: ${name}`, target, {
      bytes,
      run: async () => {
        received = await request(model, sent);
      },
    });
    expect(received).not.toBe("");
    expect(received.length).toBeLessThan(2 * bytes);
    expect(memoryGrowthBytes).toBeLessThan(16 * bytes);
  },
);
