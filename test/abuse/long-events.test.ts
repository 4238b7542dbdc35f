/**
 * One long event of a stream that is passed on does not hold the event loop: an upstream writes it into each place that
 * a reader parses. The gateway ends a stream whose event exceeds the bounds, and serves one just within them. A whole
 * response has no such bounds, because it may have millions of log probabilities: it is scanned in a thread, and only
 * short members of it are parsed.
 */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { gzipSync } from "node:zlib";
import { responseBounds } from "../../src/count-limits.ts";
import { TEST_KEY } from "../support/running-gateway.ts";
import {
  type AttackTarget,
  buildAttackFile,
  buildAttackRequest,
  CannedUpstream,
  DIALECTS,
  type Dialect,
  listDialectAccounts,
  measureAttack,
  startAttackTarget,
} from "./attack-setup.ts";

setDefaultTimeout(120_000);

const MIB = 1024 * 1024;

/** The long value of an event. All but the first are just within the bounds of every dialect. */
const VALUES: Readonly<Record<string, string>> = {
  "too many objects": objects(12 * MIB),
  "many objects": objects((responseBounds.eventValuesMax * 3) / 2 - 3_000),
  escapes: `"${'\\"'.repeat(MIB - 4_096)}"`,
};
/** What only Responses passes: its events are scanned, and not parsed. */
const SCANNED_VALUES: Readonly<Record<string, string>> = {
  "a million values": objects((responseBounds.scannedEventValuesMax * 3) / 2 - 3_000),
  "4 MiB of escapes": `"${'\\"'.repeat(2 * MIB - 4_096)}"`,
  "4 MiB of digits": "1".repeat(4 * MIB - 4_096),
};
const WHOLE_BYTES = 12 * MIB;
const ALL_VALUES: Readonly<Record<string, string>> = { ...VALUES, ...SCANNED_VALUES, short: "1" };

function objects(bytes: number): string {
  return `[${"{},".repeat(bytes / 3)}{}]`;
}

const event = (type: string, members: string) => `event: ${type}\ndata: {"type":"${type}",${members}}\n\n`;
const data = (members: string) => `data: {${members}}\n\n`;
const delta = '"index":0,"delta":{"content":"a"}';
const USAGE = '"input_tokens":1,"output_tokens":1';
const GEMINI_TEXT = '"content":{"parts":[{"text":"a"}]}';

/** Before the event, the places of its long value, and after it. */
const STREAMS: Readonly<
  Record<Dialect, readonly [string, Record<string, (value: string) => string>, string]>
> = {
  chat: [
    "",
    {
      choice: (value) =>
        data(`"id":"c","choices":[{${delta},"error":null,"finish_reason":"stop","x":${value}}]`),
      usage: (value) => data(`"id":"c","choices":[{${delta}}],"usage":{"prompt_tokens":1,"x":${value}}`),
      error: (value) => data(`"error":{"message":"a","x":${value}}`),
    },
    `${data(`"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]`)}data: [DONE]\n\n`,
  ],
  responses: [
    event("response.created", '"response":{"id":"r","output":[]}') +
      event("response.output_text.delta", '"delta":"a"'),
    {
      output: (value) => event("response.x", `"item":${value}`),
      usage: (value) => event("response.completed", `"response":{"id":"r","usage":{${USAGE},"x":${value}}}`),
      error: (value) =>
        event("response.failed", `"response":{"id":"r","error":{"message":"a","x":${value}}}`),
    },
    event("response.completed", `"response":{"id":"r","output":[],"usage":{${USAGE}}}`),
  ],
  messages: [
    event("message_start", `"message":{"id":"m","usage":{${USAGE}}}`) +
      event("content_block_delta", '"index":0,"delta":{"type":"text_delta","text":"a"}'),
    {
      block: (value) =>
        event("content_block_start", `"index":1,"content_block":{"type":"text","x":${value}}`),
      usage: (value) => event("message_delta", `"delta":{},"usage":{"output_tokens":1,"x":${value}}`),
      error: (value) => event("error", `"error":{"type":"a","message":"b","x":${value}}`),
    },
    event("message_delta", '"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}') +
      event("message_stop", '"x":1'),
  ],
  gemini: [
    "",
    {
      candidate: (value) => data(`"candidates":[{${GEMINI_TEXT},"x":${value}}]`),
      usage: (value) =>
        data(`"candidates":[{${GEMINI_TEXT}}],"usageMetadata":{"promptTokenCount":1,"x":${value}}`),
      error: (value) => data(`"error":{"message":"a","x":${value}}`),
    },
    data('"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1}'),
  ],
};

const PLACES = DIALECTS.flatMap((dialect) =>
  Object.keys(STREAMS[dialect][1]).map((place) => [dialect, place] as const),
);

let target: AttackTarget;
const upstream = new CannedUpstream("text/event-stream");

beforeAll(async () => {
  const accounts = listDialectAccounts((dialect) =>
    Object.keys(ALL_VALUES).flatMap((value) =>
      Object.keys(STREAMS[dialect][1]).map((place) => nameModel(dialect, place, value)),
    ),
  );
  target = await startAttackTarget({ file: buildAttackFile(upstream.origin, DIALECTS, accounts) });
  // The first requests compile the code.
  for (const [dialect, place] of PLACES)
    for (let run = 0; run < 3; run++) await send(dialect, place, "short");
});
afterAll(async () => {
  await target?.stop();
  await upstream.stop();
});

/** A model for each attack: failures must not end the use of a model for the next one. */
const nameModel = (dialect: Dialect, place: string, value: string) =>
  `${dialect}-${place}-${value.replaceAll(" ", "-")}`;

/** Returns the text that the client receives. */
async function send(dialect: Dialect, place: string, value: string): Promise<string> {
  const [before, places, after] = STREAMS[dialect];
  upstream.body = before + (places[place]?.(ALL_VALUES[value] ?? "") ?? "") + after;
  upstream.contentType = "text/event-stream";
  return request(dialect, { model: nameModel(dialect, place, value), stream: true });
}

async function request(dialect: Dialect, options: { model: string; stream: boolean }): Promise<string> {
  const [path, body] = buildAttackRequest(dialect, options);
  const response = await fetch(target.url + path, {
    method: "POST",
    headers: { authorization: `Bearer ${TEST_KEY}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return response.text();
}

async function attack(dialect: Dialect, place: string, value: string): Promise<string> {
  let received = "";
  const run = async () => {
    received = await send(dialect, place, value);
  };
  await measureAttack(`${value} as ${place} of ${dialect}`, target, { bytes: MIB, run });
  return received;
}

const FAULT = "JSON values in one event";

test.each(PLACES)("a long value of %s, in its %s", async (dialect, place) => {
  expect(await attack(dialect, place, "too many objects")).toContain(FAULT);
  for (const value of ["many objects", "escapes"]) {
    const received = await attack(dialect, place, value);
    expect(received).not.toContain(FAULT);
    expect(received.length > MIB / 16).toBe(place !== "error");
  }
});

test.each(Object.keys(SCANNED_VALUES))("%s in an event of Responses are passed on", async (value) => {
  expect((await attack("responses", "output", value)).length).toBeGreaterThan(MIB);
  expect((await attack("responses", "usage", value)).length).toBeGreaterThan(MIB);
});

const CHOICE = '"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"';
const WHOLE: readonly [Dialect, string, (value: string) => string][] = [
  ["chat", "usage", (value) => `{"choices":[{${CHOICE}}],"usage":{"prompt_tokens":1,"x":${value}}}`],
  ["chat", "error of a choice", (value) => `{"choices":[{${CHOICE},"error":{"x":${value}}}]}`],
  ["chat", "error", (value) => `{"error":{"message":"a","x":${value}}}`],
  ["responses", "output", (value) => `{"id":"r","status":"completed","output":[{"x":${value}}]}`],
  [
    "messages",
    "usage",
    (value) => `{"id":"m","content":[{"type":"text","text":"a"}],"usage":{${USAGE},"x":${value}}}`,
  ],
  [
    "gemini",
    "candidate",
    (value) =>
      `{"candidates":[{${GEMINI_TEXT},"groundingMetadata":{"webSearchQueries":["a"]},"x":${value}}],"usageMetadata":{"promptTokenCount":1}}`,
  ],
];
const WHOLE_MEMORY_MAX = 160 * MIB;

test.each(WHOLE)("a whole response of %s with a long %s is not parsed", async (dialect, place, build) => {
  const model = nameModel(dialect, Object.keys(STREAMS[dialect][1])[0] ?? "", "short");
  upstream.contentType = "application/json";
  upstream.body = build(objects(WHOLE_BYTES));
  let received = "";
  const { memoryGrowthBytes } = await measureAttack(`whole response with ${place} of ${dialect}`, target, {
    bytes: MIB,
    run: async () => {
      received = await request(dialect, { model, stream: false });
    },
  });
  expect(memoryGrowthBytes).toBeLessThan(WHOLE_MEMORY_MAX);
  // The client gets what the upstream sent, but no error as the upstream wrote it.
  expect(received.includes("{},".repeat(1_000))).toBe(!place.startsWith("error"));
});

test("a whole response that is compressed without being requested is not unpacked on the event loop", async () => {
  // Each block of 32 KiB, as far as compression looks back, has another half a KiB that cannot be compressed.
  const block = () =>
    Buffer.from(crypto.getRandomValues(new Uint8Array(512))).toString("hex") + " ".repeat(31 * 1024);
  const text = Array.from({ length: 24 * 32 }, block).join("");
  upstream.contentType = "application/json";
  upstream.contentEncoding = "gzip";
  upstream.body = new Uint8Array(gzipSync(`{"id":"c","choices":[{${CHOICE}}],"x":"${text}"}`));
  let received = 0;
  await measureAttack("whole response, unpacked to fifty times its size", target, {
    bytes: upstream.body.length,
    run: async () => {
      received = (await request("chat", { model: nameModel("chat", "usage", "short"), stream: false }))
        .length;
    },
  });
  expect(received).toBeGreaterThan(text.length);
});
