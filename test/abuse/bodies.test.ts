/** Request bodies that are designed to be expensive: they delay no other request, and their memory use is bounded. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { connect, type Socket } from "node:net";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { expectRejection } from "../support/error-envelope.ts";
import { eventually } from "../support/eventually.ts";
import { gatewayFile, OTHER_KEY, TEST_KEY } from "../support/running-gateway.ts";
import { openSocketClient, type ServerEvent } from "../support/turn-client.ts";
import {
  type Attack,
  type AttackTarget,
  measureAttack,
  type SettledReport,
  startAttackTarget,
  TURN_MS_MAX,
} from "./attack-setup.ts";

const MiB = 1024 * 1024;
const CHAT = "/v1/chat/completions";
const LIMITED_KEY = "limited-key-0123456789-0123456789-01234567";
const TURN_ENDS = ["response.completed", "error"];
/** A long turn takes eight seconds if the machine is busy. */
const TURN_WITHIN_MS = 40_000;

let target: AttackTarget;

beforeAll(async () => {
  const file = gatewayFile({}).replace(
    /^keys:\n/m,
    `keys:\n  - { name: limited, secret: ${LIMITED_KEY}, user: other@example.com, group: default, limits: { rpm: 1, concurrency: 1 } }\n`,
  );
  target = await startAttackTarget({ file });
  // Starts the threads and compiles the code before the measurement.
  await post(CHAT, chatBody(MiB, "ones"));
});

afterAll(() => target.stop());

function post(
  path: string,
  body: Uint8Array | FormData,
  headers: Record<string, string> = {},
  key = TEST_KEY,
): Promise<Response> {
  const type = body instanceof FormData ? {} : { "content-type": "application/json" };
  return fetch(`${target.url}${path}`, {
    method: "POST",
    body: body instanceof FormData ? body : Buffer.from(body),
    headers: { authorization: `Bearer ${key}`, ...type, ...headers },
  });
}

/** Fails if the event loop was held for too long, in CPU time: other processes of the machine do not count. */
async function expectResponsive(name: string, attack: Attack): Promise<SettledReport> {
  const report = await measureAttack(name, target, attack);
  expect(report.worstTurnMs).toBeLessThan(TURN_MS_MAX);
  return report;
}

const SHAPES = {
  ones: (bytes: number) => `[${"1,".repeat(bytes / 2)}1]`,
  "empty strings": (bytes: number) => `[${'"",'.repeat(bytes / 3)}""]`,
  objects: (bytes: number) => `[${'{"a":1},'.repeat(bytes / 8)}{}]`,
  "escaped quotes": (bytes: number) => `"${'\\"'.repeat(bytes / 2)}"`,
  "marks of data URLs": (bytes: number) => `"${";base64,".repeat(bytes / 8)}"`,
  "names of sounds": (bytes: number) => `[${'"input_audio",'.repeat(bytes / 14)}1]`,
  space: (bytes: number) => `[${" ".repeat(bytes)}]`,
  text: (bytes: number) => `"${"text ".repeat(bytes / 5)}"`,
} as const;
type Shape = keyof typeof SHAPES;

function chatBody(bytes: number, shape: Shape): Buffer {
  const head = '{"model":"fast-chat","messages":[{"role":"user","content":"hi"}],"metadata":';
  return Buffer.from(`${head}${SHAPES[shape](bytes)}}`);
}

describe("a request body of 62 MiB", () => {
  test.each(Object.keys(SHAPES) as Shape[])("made of %s does not delay other requests", async (shape) => {
    const body = chatBody(62 * MiB, shape);
    await expectResponsive(`62 MiB of ${shape}`, {
      bytes: body.length,
      async run() {
        const response = await post(CHAT, body);
        expect(response.status).toBe(200);
        await response.text();
      },
    });
  });

  test("with an Idempotency-Key does not delay other requests while it is hashed", async () => {
    const body = chatBody(62 * MiB, "text");
    await expectResponsive("62 MiB with Idempotency-Key", {
      bytes: body.length,
      async run() {
        const response = await post(CHAT, body, { "idempotency-key": "attack" });
        expect(response.status).toBe(200);
        await response.text();
      },
    });
  });
});

test("a compressed body that expands more than 100 times is rejected at almost no cost", async () => {
  const bomb = brotliCompressSync(Buffer.from(`{"model":"fast-chat","messages":[${" ".repeat(62 * MiB)}]}`), {
    params: { 1: 5 },
  });
  expect(bomb.length).toBeLessThan(2_000);
  const send = async () => {
    const response = await post(CHAT, bomb, { "content-encoding": "br" });
    const error = await expectRejection(response, 413);
    expect(error).toMatchObject({ code: "request_too_large" });
    expect(error.message).toContain("100 times");
  };
  const report = await expectResponsive("20 brotli bombs of 62 MiB", {
    bytes: 20 * bomb.length,
    run: async () => void (await Promise.all(Array.from({ length: 20 }, send))),
  });
  // A decoder has a window of up to 16 MiB, and only a few of them run at a time.
  expect(report.memoryGrowthBytes).toBeLessThan(160 * MiB);
  expect(report.memory.after - report.memory.before).toBeLessThan(32 * MiB);
});

test("a large body of a key over its limits is not read", async () => {
  expect(
    (
      await post(
        CHAT,
        Buffer.from('{"model":"fast-chat","messages":[{"role":"user","content":"hi"}]}'),
        {},
        LIMITED_KEY,
      )
    ).status,
  ).toBe(200);
  const body = chatBody(62 * MiB, "ones");
  const packed = gzipSync(chatBody(MiB, "text"));
  const report = await measureAttack("62 MiB and packed bodies of a key over its rpm", target, {
    bytes: 5 * packed.length,
    async run() {
      for (let i = 0; i < 5; i++) {
        const error = await expectRejection(
          await post(CHAT, packed, { "content-encoding": "gzip" }, LIMITED_KEY),
          429,
        );
        expect(error.code).toBe("rate_limit_exceeded");
      }
      // The rejection comes before the body, so the client does not have to send it.
      expect(await headOnly(`content-length: ${body.length}`, LIMITED_KEY)).toStartWith("HTTP/1.1 429");
      expect(await headOnly("transfer-encoding: chunked", LIMITED_KEY)).toStartWith("HTTP/1.1 429");
      expect(await headOnly(`content-length: ${64 * 1024 + 1}`, LIMITED_KEY)).toStartWith("HTTP/1.1 429");
    },
  });
  expect(report.cpuMs).toBeLessThan(1_000);
});

/** Returns the response to a request whose body is never sent. */
function headOnly(framing: string, key: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(target.url);
    const socket = connect(Number(port), hostname, () =>
      socket.write(
        `POST ${CHAT} HTTP/1.1\r\nhost: test\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\n${framing}\r\n\r\n`,
      ),
    );
    socket.once("data", (data) => {
      resolve(data.toString());
      socket.destroy();
    });
    socket.once("error", reject);
    socket.setTimeout(3_000, () => {
      socket.destroy();
      reject(new Error("no answer came before the body"));
    });
  });
}

test("bodies of exactly 1 MiB share a memory budget and must arrive at a minimum rate", async () => {
  const sockets: Socket[] = [];
  const responses: string[] = [];
  const { hostname, port } = new URL(target.url);
  const request = `POST ${CHAT} HTTP/1.1\r\nhost: test\r\nauthorization: Bearer ${TEST_KEY}\r\ncontent-type: application/json\r\ncontent-length: ${MiB}\r\n\r\n{`;
  const report = await measureAttack("600 silent bodies of exactly 1 MiB", target, {
    bytes: 600 * request.length,
    async run() {
      for (let i = 0; i < 600; i++) {
        const socket = connect(Number(port), hostname);
        socket.on("error", () => {});
        socket.on("data", (data) => responses.push(data.toString().slice(9, 12)));
        socket.write(request);
        sockets.push(socket);
      }
      await eventually(() => responses.length, { equals: 600, withinMs: 30_000 });
    },
  });
  for (const socket of sockets) socket.destroy();
  expect(new Set(responses)).toEqual(new Set(["408", "503"]));
  expect(report.durationMs).toBeLessThan(30_000);
  expect(report.memoryGrowthBytes).toBeLessThan(300 * MiB);
});

test("compressed forms write almost nothing to disk", async () => {
  const boundary = "attack";
  const head = `--${boundary}\r\ncontent-disposition: form-data; name="model"\r\n\r\nfast-chat\r\n--${boundary}\r\ncontent-disposition: form-data; name="image"; filename="a.png"\r\n\r\n`;
  const form = gzipSync(
    Buffer.concat([Buffer.from(head), Buffer.alloc(49 * MiB), Buffer.from(`\r\n--${boundary}--\r\n`)]),
  );
  expect(form.length).toBeLessThan(102_000);
  const headers = { "content-type": `multipart/form-data; boundary=${boundary}`, "content-encoding": "gzip" };
  const report = await measureAttack("five packed forms", target, {
    bytes: 5 * form.length,
    async run() {
      const statuses = await Promise.all(
        Array.from(
          { length: 5 },
          async () => (await post("/v1/images/edits", form, headers, OTHER_KEY)).status,
        ),
      );
      expect(statuses).toEqual([413, 413, 413, 413, 413]);
    },
  });
  expect(report.diskGrowthBytes).toBeLessThan(64 * MiB);
});

test.each(["HTTP", "WebSocket"])(
  "a WebSocket turn of 62 MiB, for an account with %s, does not delay other requests",
  async (transport) => {
    const name = `a WebSocket turn of 62 MiB, for an account with ${transport}`;
    const file = gatewayFile({}).replace(
      "private_network: true",
      `$&\n    websocket: ${transport === "WebSocket"}`,
    );
    const ownTarget = await startAttackTarget({ file });
    const socket = await openSocketClient(ownTarget.url);
    try {
      const head = '{"type":"response.create","model":"fast-chat","store":false,"input":"hi","padding":';
      const frame = `${head}${SHAPES.objects(62 * MiB)}}`;
      const report = await measureAttack(name, ownTarget, {
        bytes: frame.length,
        async run() {
          const before = socket.events.length;
          socket.send(frame);
          const ends = () => socket.events.slice(before).find(({ type }) => TURN_ENDS.includes(type));
          expect(await eventually(ends, TURN_WITHIN_MS)).toMatchObject({ type: "response.completed" });
        },
      });
      expect(report.worstTurnMs).toBeLessThan(TURN_MS_MAX);
    } finally {
      socket.close();
      await ownTarget.stop();
    }
  },
);

test("a conversation of long turns continues in order", async () => {
  const socket = await openSocketClient(target.url);
  try {
    const first = await socket.turn({ model: "fast-chat", input: "x".repeat(2 * MiB), store: false });
    expect(first.last.type).toBe("response.completed");
    socket.create({
      model: "fast-chat",
      previous_response_id: first.responseId,
      input: [{ type: "message", role: "user", content: "y".repeat(MiB) }],
      store: false,
    });
    socket.create({ model: "fast-chat", input: "short", store: false });
    const turns = [await socket.until("response.completed"), await socket.until("response.completed")];
    expect(usageIn(turns[0])).toBeGreaterThan(3 * usageIn(turns[1]));
  } finally {
    socket.close();
  }
});

function usageIn(events: readonly ServerEvent[] | undefined): number {
  const last = events?.at(-1) as { response?: { usage?: { input_tokens?: number } } } | undefined;
  return last?.response?.usage?.input_tokens ?? 0;
}
