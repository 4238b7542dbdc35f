/**
 * The work for a request grows no faster than the size of its input. Each input is sent in four sizes, each twice the
 * previous one. The test measures the CPU time of the gateway's main thread and takes the minimum of several runs,
 * because other load on the machine can only make a run longer.
 */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { rawRequest } from "../support/raw-http.ts";
import { gatewayFile, TEST_KEY } from "../support/running-gateway.ts";
import { openSocketClient } from "../support/turn-client.ts";
import { type AttackTarget, startAttackTarget } from "./attack-setup.ts";

let target: AttackTarget;
beforeAll(async () => {
  target = await startAttackTarget({
    file: gatewayFile({ models: { "fast-chat": "sim-fast", embed: "sim-embed" } }),
  });
  await fetch(`${target.url}/api/session`);
});
afterAll(() => target.stop());

const RUNS = 5;
const SIZES = [1, 2, 4, 8];
const GROWTH_MAX = 2.5;
/** Below this duration the clock, timers and the garbage collector dominate. */
const NOISE_MS = 1.5;

/** Returns the CPU time of the main thread so far. */
function cpuMs(): number {
  return Number(readFileSync(`/proc/${target.pid}/schedstat`, "utf8").split(" ")[0]) / 1e6;
}

/** The status of the last response, or the last event of a turn. */
let lastStatus: number | string = 0;

type Send = (size: number) => Promise<unknown>;

async function leastCpuMs(send: Send, size: number): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let run = 0; run < RUNS; run++) {
    const before = cpuMs();
    await send(size);
    least = Math.min(least, cpuMs() - before);
  }
  return least;
}

/** The cost factor of a doubling, averaged over three and over two doublings. */
async function growthOf(name: string, unit: number, send: Send): Promise<number> {
  await send(unit * (SIZES.at(-1) ?? 1));
  const costs: number[] = [];
  const statuses = new Set<number | string>();
  for (const factor of SIZES) {
    costs.push(await leastCpuMs(send, unit * factor));
    statuses.add(lastStatus);
  }
  // A size that a limit rejects costs less than it should, and the case would no longer measure what it names.
  expect([...statuses]).toEqual([lastStatus]);
  const [first = 0, second = 0, , last = 0] = costs.map((ms) => Math.max(ms, NOISE_MS));
  // Computed in two ways, because a run can coincide with background work of the gateway.
  const growth = Math.max((last / first) ** (1 / 3), (last / second) ** (1 / 2));
  const figures = costs.map((ms, i) => `${unit * (SIZES[i] ?? 1)}: ${ms.toFixed(1)} ms`);
  console.log(
    `work: ${name}: ${figures.join(", ")}; × ${growth.toFixed(2)} a doubling (status ${lastStatus})`,
  );
  return growth;
}

const times = (count: number, make: (i: number) => string, between = "") =>
  Array.from({ length: count }, (_, i) => make(i)).join(between);

const AUTHORIZATION = `Bearer ${TEST_KEY}`;

async function ask(path: string, headers: Record<string, string> = {}): Promise<void> {
  const response = await fetch(`${target.url}${path}`, { headers });
  await response.arrayBuffer();
  lastStatus = response.status;
}

async function post(
  path: string,
  body: string | FormData,
  headers: Record<string, string> = {},
): Promise<void> {
  const type = typeof body === "string" ? { "content-type": "application/json" } : undefined;
  const response = await fetch(`${target.url}${path}`, {
    method: "POST",
    body,
    headers: { ...type, authorization: AUTHORIZATION, ...headers },
  });
  await response.arrayBuffer();
  lastStatus = response.status;
}

/** Sends the request unchanged, with all its header lines. */
const raw = (...lines: string[]) => sendRaw(`${lines.join("\r\n")}\r\n\r\n`);

async function sendRaw(request: string): Promise<void> {
  lastStatus = (await rawRequest(target.url, request)).status;
}

const chat = (fields: string) => `{"model":"fast-chat","messages":[{"role":"user","content":"hi"}]${fields}}`;
const repeated = (count: number, send: () => Promise<unknown>) => async () => {
  for (let i = 0; i < count; i++) await send();
};

describe("the work for request heads grows linearly", () => {
  test.each<[string, number, Send]>([
    [
      "query parameters",
      12,
      (n) => repeated(50, () => ask(`/api/session?${times(n, (i) => `p${i}=1`, "&")}`))(),
    ],
    ["too many query parameters", 1_900, (n) => ask(`/api/session?${times(n, (i) => i.toString(36), "&")}`)],
    ["query parameters with one name", 1_900, (n) => ask(`/v1/models?${times(n, () => "a=1", "&")}`)],
    [
      "header lines",
      15,
      (n) =>
        repeated(50, () =>
          raw("GET /v1/models HTTP/1.1", "Host: gw", ...Array.from({ length: n }, (_, i) => `X-${i}: ${i}`)),
        )(),
    ],
    [
      "too many header lines",
      600,
      (n) =>
        raw("GET /v1/models HTTP/1.1", "Host: gw", ...Array.from({ length: n }, (_, i) => `X-${i}: ${i}`)),
    ],
    [
      "one header, repeated",
      15,
      (n) =>
        repeated(50, () =>
          raw(
            "GET /v1/models HTTP/1.1",
            "Host: gw",
            ...Array.from({ length: n }, () => "Authorization: Bearer x"),
          ),
        )(),
    ],
    ["a long header", 7_500, (n) => ask("/api/session", { "user-agent": "x".repeat(n) })],
    ["cookies", 1_000, (n) => ask("/api/session", { cookie: times(n, (i) => `a${i}=1`, ";") })],
    ["cookies without a value", 3_700, (n) => ask("/api/session", { cookie: times(n, () => "=", ";") })],
    ["tags", 1_000, (n) => ask("/openapi.json", { "if-none-match": times(n, (i) => `"${i}"`, ",") })],
    [
      "keys in one header",
      3_000,
      (n) => ask("/v1/models", { authorization: `Bearer ${times(n, () => "x", ",")}` }),
    ],
    ["blanks before a key", 7_500, (n) => ask("/v1/models", { authorization: `Bearer ${" ".repeat(n)}x` })],
    [
      "connection options",
      2_500,
      (n) => raw("GET /healthz HTTP/1.1", "Host: gw", `Connection: ${times(n, () => "a", ",")}`),
    ],
    [
      "subprotocols",
      2_000,
      (n) =>
        raw(
          "GET /v1/responses HTTP/1.1",
          "Host: gw",
          "Upgrade: websocket",
          "Connection: upgrade",
          "Origin: http://gw",
          `Sec-WebSocket-Protocol: ${times(n, () => "abc", ",")}`,
        ),
    ],
    ["slashes in a path", 7_500, (n) => ask(`/v1${"/".repeat(n)}x`)],
    ["repeated parts of a path", 2_400, (n) => ask(`${"/v1".repeat(n)}/x`)],
    [
      "a model name in a path",
      7_500,
      (n) => ask(`/v1/models/${"a".repeat(n)}`, { authorization: AUTHORIZATION }),
    ],
    [
      "percent signs in a path",
      2_400,
      (n) => ask(`/v1/models/${"%41".repeat(n)}`, { authorization: AUTHORIZATION }),
    ],
    [
      "a response's id",
      7_500,
      (n) => ask(`/v1/responses/${"a".repeat(n)}`, { authorization: AUTHORIZATION }),
    ],
  ])("%s", async (name, unit, send) => {
    expect(await growthOf(name, unit, send)).toBeLessThan(GROWTH_MAX);
  });
});

describe("the work for request bodies grows linearly", () => {
  test.each<[string, number, Send]>([
    ["members of an object", 8_000, (n) => post("/v1/chat/completions", chat(times(n, (i) => `,"m${i}":1`)))],
    ["members with one name", 8_000, (n) => post("/v1/chat/completions", chat(times(n, () => `,"m":1`)))],
    [
      "nested members",
      8_000,
      (n) => post("/v1/chat/completions", chat(`,"metadata":{${times(n, (i) => `"m${i}":{"a":1}`, ",")}}`)),
    ],
    [
      "messages",
      2_000,
      (n) =>
        post(
          "/v1/chat/completions",
          chat(`,"x":0`).replace("[{", `[${times(n, () => `{"role":"user","content":"hi"},`)}{`),
        ),
    ],
    [
      "parts of a message",
      2_000,
      (n) =>
        post(
          "/v1/chat/completions",
          chat("").replace(`"hi"`, `[${times(n, () => `{"type":"text","text":"hi"}`, ",")}]`),
        ),
    ],
    [
      "tools",
      500,
      (n) =>
        post(
          "/v1/chat/completions",
          chat(
            `,"tools":[${times(n, (i) => `{"type":"function","function":{"name":"f${i}","parameters":{}}}`, ",")}]`,
          ),
        ),
    ],
    [
      "images in a message",
      1_000,
      (n) =>
        post(
          "/v1/chat/completions",
          chat("").replace(
            `"hi"`,
            `[${times(n, () => `{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}`, ",")}]`,
          ),
        ),
    ],
    [
      "items of a conversation",
      2_000,
      (n) =>
        post(
          "/v1/responses",
          `{"model":"fast-chat","input":[${times(n, (i) => `{"type":"message","id":"m${i}","role":"user","content":"hi"}`, ",")}]}`,
        ),
    ],
    [
      "texts for embeddings",
      8_000,
      (n) => post("/v1/embeddings", `{"model":"embed","input":[${times(n, () => `"hi"`, ",")}]}`),
    ],
    [
      "a long text",
      400_000,
      (n) => post("/v1/chat/completions", chat("").replace("hi", "word ".repeat(n / 5))),
    ],
    [
      "escapes in a text",
      80_000,
      (n) => post("/v1/chat/completions", chat("").replace("hi", "\\u00e4\\n".repeat(n))),
    ],
    ["blanks", 400_000, (n) => post("/v1/chat/completions", chat(" ".repeat(n)))],
    [
      "a body with an error at its end",
      200_000,
      (n) => post("/v1/chat/completions", chat(`,"x":[${"1,".repeat(n)}}`)),
    ],
    [
      "a model's name",
      80_000,
      (n) => post("/v1/chat/completions", chat("").replace("fast-chat", "m".repeat(n))),
    ],
    [
      "digits of a number",
      200_000,
      (n) => post("/v1/chat/completions", chat(`,"max_tokens":${"1".repeat(n)}`)),
    ],
    [
      "members in the console's API",
      750,
      (n) =>
        post("/api/session", `{"email":"a","password":"b"${times(n, (i) => `,"m${i}":1`)}}`, {
          authorization: "",
        }),
    ],
    [
      "objects in the console's API",
      3_500,
      (n) => post("/api/session", `${"[".repeat(n)}${"]".repeat(n)}`, { authorization: "" }),
    ],
  ])("%s", async (name, unit, send) => {
    expect(await growthOf(name, unit, send)).toBeLessThan(GROWTH_MAX);
  });

  test.each<[string, number, Send]>([
    ["parts of a form", 7, (n) => repeated(10, () => post("/v1/images/edits", form(n)))()],
    ["too many parts of a form", 250, (n) => post("/v1/images/edits", form(n))],
    ["a file in a form", 400_000, (n) => post("/v1/images/edits", form(1, n))],
    ["chunks", 20_000, (n) => sendRaw(chunked("1\r\n \r\n".repeat(n)))],
    [
      "trailers",
      15,
      (n) =>
        repeated(20, () =>
          rawRequest(
            target.url,
            chunked(
              "",
              times(n, (i) => `X-${i}: 1\r\n`),
            ),
          ),
        )(),
    ],
  ])("%s", async (name, unit, send) => {
    expect(await growthOf(name, unit, send)).toBeLessThan(GROWTH_MAX);
  });
});

function form(parts: number, fileBytes = 10): FormData {
  const data = new FormData();
  for (let i = 0; i < parts; i++) data.set(`p${i}`, "x".repeat(100));
  data.set("model", "fast-chat");
  data.set("prompt", "a cat");
  data.set("image", new Blob([Buffer.alloc(fileBytes, "-x")]), "a.png");
  return data;
}

function chunked(before: string, trailers = ""): string {
  const body = chat("");
  const lines = ["POST /v1/chat/completions HTTP/1.1", "Host: gw", `Authorization: ${AUTHORIZATION}`];
  const head = [...lines, "Content-Type: application/json", "Transfer-Encoding: chunked", "", ""].join(
    "\r\n",
  );
  return `${head}${before}${body.length.toString(16)}\r\n${body}\r\n0\r\n${trailers}\r\n`;
}

describe("the work for WebSocket messages grows linearly", () => {
  const turn = (input: string) => `{"type":"response.create","model":"fast-chat","input":${input}}`;

  test.each<[string, number, (n: number) => string]>([
    [
      "items of a turn",
      2_000,
      (n) => turn(`[${times(n, () => `{"type":"message","role":"user","content":"hi"}`, ",")}]`),
    ],
    ["members of a frame", 8_000, (n) => turn(`"hi"${times(n, (i) => `,"m${i}":1`)}`)],
    ["a long frame", 400_000, (n) => turn(`"${"word ".repeat(n / 5)}"`)],
    ["long lane names", 80_000, (n) => turn(`"hi","stream_id":"${"a".repeat(n)}"`)],
  ])("%s", async (name, unit, frame) => {
    const client = await openSocketClient(target.url);
    const send = async (n: number) => {
      client.send(frame(n));
      const events = await client.until("response.completed", "response.failed", "error");
      lastStatus = events.at(-1)?.type ?? "none";
    };
    expect(await growthOf(name, unit, send)).toBeLessThan(GROWTH_MAX);
    client.close();
  });

  test.each<[string, number, (n: number) => Buffer]>([
    [
      "fragments of a message",
      8_000,
      (n) =>
        Buffer.concat([
          frame(0x01, "{"),
          ...Array.from({ length: n }, () => frame(0x00, " ")),
          frame(0x80, "}"),
        ]),
    ],
    [
      "pings",
      8_000,
      (n) => Buffer.concat([...Array.from({ length: n }, () => frame(0x89, "ping")), frame(0x81, "{}")]),
    ],
  ])("%s", async (name, unit, frames) => {
    const send = async (n: number) => {
      const opening = [
        "GET /v1/responses HTTP/1.1",
        "Host: gw",
        `Authorization: ${AUTHORIZATION}`,
        "Upgrade: websocket",
        "Connection: upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
      ];
      await conversation(Buffer.concat([Buffer.from(`${opening.join("\r\n")}\r\n\r\n`), frames(n)]));
    };
    expect(await growthOf(name, unit, send)).toBeLessThan(GROWTH_MAX);
  });

  /** A client frame, masked with zeros. */
  function frame(first: number, text: string): Buffer {
    return Buffer.concat([Buffer.of(first, 0x80 | text.length, 0, 0, 0, 0), Buffer.from(text)]);
  }

  /** Sends all data and waits for the error response to the last message. */
  async function conversation(bytes: Buffer): Promise<void> {
    const responded = Promise.withResolvers<void>();
    let unsent = bytes;
    const send = (socket: Bun.Socket) => {
      unsent = unsent.subarray(Math.max(0, socket.write(unsent)));
    };
    let received = "";
    const socket = await Bun.connect({
      hostname: "127.0.0.1",
      port: Number(new URL(target.url).port),
      socket: {
        open: send,
        drain: send,
        data(_, piece) {
          received = (received + piece.toString("latin1")).slice(-2_000);
          if (received.includes('"error"')) responded.resolve();
        },
        close: () => responded.resolve(),
      },
    });
    await responded.promise;
    socket.end();
  }
});
