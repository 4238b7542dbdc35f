/** The work for a request grows no faster than the size of its input. */

import { afterAll, beforeAll, describe, test } from "bun:test";
import { gatewayFile } from "../support/running-gateway.ts";
import { type AttackTarget, startAttackTarget } from "./attack-setup.ts";
import { AUTHORIZATION, GrowthMeter, type Send, times } from "./growth-meter.ts";

let target: AttackTarget;
let meter: GrowthMeter;
beforeAll(async () => {
  target = await startAttackTarget({
    file: gatewayFile({ models: { "fast-chat": "sim-fast", embed: "sim-embed" } }),
  });
  meter = new GrowthMeter(target);
  await fetch(`${target.url}/api/session`);
});
afterAll(() => target.stop());

const ask = (path: string, headers?: Record<string, string>) => meter.get(path, headers);
const post = (path: string, body: string | FormData, headers?: Record<string, string>) =>
  meter.post(path, body, headers);
const sendRaw = (request: string) => meter.sendRaw(request);
/** Sends the request unchanged, with all its header lines. */
const raw = (...lines: string[]) => sendRaw(`${lines.join("\r\n")}\r\n\r\n`);

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
  ])("%s", (name, unit, send) => meter.expectLinear(name, unit, send));
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
  ])("%s", (name, unit, send) => meter.expectLinear(name, unit, send));

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
          sendRaw(
            chunked(
              "",
              times(n, (i) => `X-${i}: 1\r\n`),
            ),
          ),
        )(),
    ],
  ])("%s", (name, unit, send) => meter.expectLinear(name, unit, send));
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
