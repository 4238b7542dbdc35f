/** The work for a stream of Amazon Bedrock grows no faster than its size, whatever its frames consist of. */

import { expect, setDefaultTimeout, test } from "bun:test";
import { encodeEventFrame } from "../../../simulator/cloud/encode-event-frame.ts";
import { responseBounds } from "../../../src/count-limits.ts";
import type { Canned, Result } from "./lab.ts";
import { judgeAll, LARGE_DOCUMENT_BYTES } from "./measure.ts";
import { CPU_MS_PER_MIB, isUnavailable, plainReply, plainRequest, useWarmLab } from "./routes.ts";

setDefaultTimeout(600_000);

const lab = useWarmLab();

const EVENT = { ":message-type": "event", ":event-type": "chunk" };
const OTHER = { ":message-type": "event", ":event-type": "other" };

function chunk(json: object, headers: Readonly<Record<string, string>> = EVENT): Buffer {
  return encodeEventFrame(
    headers,
    JSON.stringify({ bytes: Buffer.from(JSON.stringify(json)).toString("base64"), p: "abcd" }),
  );
}

const usage = { input_tokens: 1, output_tokens: 1 };
const delta = (text: string) => ({
  type: "content_block_delta",
  index: 0,
  delta: { type: "text_delta", text },
});
const HEAD = [
  { type: "message_start", message: { id: "m", type: "message", role: "assistant", content: [], usage } },
  { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
  delta("a"),
];
const TAIL = [
  { type: "content_block_stop", index: 0 },
  { type: "message_delta", delta: { stop_reason: "end_turn" }, usage },
  { type: "message_stop" },
];

const manyHeaders = (count: number, value = "") =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`h${at}`, value]));

/** What repeats in a stream. */
const REPEATED: Readonly<Record<string, Buffer>> = {
  "deltas of a letter": chunk(delta("a")),
  "deltas of 4 KiB": chunk(delta("word ".repeat(820))),
  pings: chunk({ type: "ping" }),
  "frames of another type": encodeEventFrame(OTHER, ""),
  "as many headers as a frame may have": encodeEventFrame(
    { ...OTHER, ...manyHeaders(responseBounds.frameHeadersMax - 2) },
    "",
  ),
  "long headers": encodeEventFrame({ ...OTHER, ...manyHeaders(8, "a".repeat(16_000)) }, ""),
};

/** No API has as many. */
const TOO_MANY = encodeEventFrame({ ...EVENT, ...manyHeaders(responseBounds.frameHeadersMax - 1) }, "");

function stream(repeated: Buffer, bytes: number): Canned {
  const count = Math.ceil(bytes / repeated.length);
  const frames = [
    ...HEAD.map((json) => chunk(json)),
    ...Array(count).fill(repeated),
    ...TAIL.map((json) => chunk(json)),
  ];
  return { contentType: "application/vnd.amazon.eventstream", body: Buffer.concat(frames) };
}

async function send(reply: Canned): Promise<Result> {
  const request = (model: string, isStream: boolean) => plainRequest("messages", { model, stream: isStream });
  const result = await lab().run(request(lab().model("bedrock"), true), reply);
  if (!isUnavailable(result)) return result;
  await lab().recover("bedrock", (model) => request(model, false), plainReply("messages", false));
  return lab().run(request(lab().model("bedrock"), true), reply);
}

test("in every kind of frame", async () => {
  const runs = Object.entries(REPEATED).map(([name, repeated]) => ({
    name,
    msPerMib: CPU_MS_PER_MIB.passed,
    send: async (bytes: number) => {
      const result = await send(stream(repeated, bytes));
      expect([result.status, result.isForwarded]).toEqual([200, true]);
      return result;
    },
  }));
  expect(await judgeAll("frames of Amazon Bedrock", runs, LARGE_DOCUMENT_BYTES)).toEqual([]);
});

test("a frame with more headers ends the stream", async () => {
  const { text, receivedBytes } = await send(stream(TOO_MANY, LARGE_DOCUMENT_BYTES));
  expect(text).toContain('"text":"a"');
  expect(text).toContain("event: error");
  expect(receivedBytes).toBeLessThan(2_000);
});
