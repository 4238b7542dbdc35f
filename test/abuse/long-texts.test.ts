/**
 * One long plain text in an event of a stream that is passed on does not hold the event loop, also where it is counted.
 * With other work on both cores the worst turn of 15 MiB was 16 to 42 ms. Most of it are the searches of the whole event,
 * five to thirteen, of 1.7 ms each at best.
 */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
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
/** A model for each attack, because some of them make the upstream's model cool down. */
const MODELS = 4;

const upstream = new CannedUpstream("text/event-stream");
let target: AttackTarget;

beforeAll(async () => {
  const accounts = listDialectAccounts((dialect) =>
    Array.from({ length: MODELS }, (_, at) => `${dialect}${at}`),
  );
  target = await startAttackTarget({ file: buildAttackFile(upstream.origin, DIALECTS, accounts) });
  // The first requests compile the code and load the tokenizer.
  for (let run = 0; run < 5; run++)
    for (const dialect of DIALECTS)
      await request(dialect, 0, buildStream(dialect, "word ".repeat(20), false));
});
afterAll(async () => {
  await target?.stop();
  await upstream.stop();
});

const event = (json: Record<string, unknown> & { type: string }) =>
  `event: ${json.type}\ndata: ${JSON.stringify(json)}\n\n`;
const data = (json: object) => `data: ${JSON.stringify(json)}\n\n`;

/** Without usage, so that the text is counted. */
function buildStream(dialect: Dialect, text: string, isDelta: boolean): string {
  switch (dialect) {
    case "chat":
      return `${data({ id: "c", choices: [{ index: 0, delta: { content: text }, finish_reason: isDelta ? null : "stop" }] })}${data({ id: "c", choices: [{ index: 0, delta: {}, finish_reason: "stop" }] })}data: [DONE]\n\n`;
    case "responses":
      return (
        event({ type: "response.created", response: { id: "r", status: "in_progress", output: [] } }) +
        (isDelta ? event({ type: "response.output_text.delta", delta: text }) : "") +
        event({
          type: "response.completed",
          response: {
            id: "r",
            status: "completed",
            output: [{ type: "message", content: [{ type: "output_text", text: isDelta ? "" : text }] }],
          },
        })
      );
    case "messages":
      return (
        event({ type: "message_start", message: { id: "m", content: [] } }) +
        event({
          type: "content_block_start",
          index: 0,
          content_block: { type: "text", text: isDelta ? "" : text },
        }) +
        event({
          type: "content_block_delta",
          index: 0,
          delta: { type: "text_delta", text: isDelta ? text : "a" },
        }) +
        event({ type: "content_block_stop", index: 0 }) +
        event({ type: "message_delta", delta: { stop_reason: "end_turn" } }) +
        event({ type: "message_stop" })
      );
    case "gemini":
      return (
        (isDelta ? data({ candidates: [{ content: { parts: [{ text }] } }] }) : "") +
        data({ candidates: [{ content: { parts: [{ text: isDelta ? "a" : text }] }, finishReason: "STOP" }] })
      );
  }
}

async function request(dialect: Dialect, at: number, stream: string, n = 1): Promise<number> {
  upstream.body = stream;
  const [path, body] = buildAttackRequest(dialect, { model: `${dialect}${at}`, stream: true });
  const response = await fetch(target.url + path, {
    method: "POST",
    headers: { authorization: `Bearer ${TEST_KEY}`, "content-type": "application/json" },
    body: JSON.stringify(n === 1 ? body : { ...body, n }),
  });
  return (await response.text()).length;
}

const TEXTS: Readonly<Record<string, string>> = {
  words: "word ".repeat(3 * MIB),
  "letters of two bytes": "é".repeat(7.5 * MIB),
};

test.each(
  DIALECTS.flatMap((dialect) =>
    Object.keys(TEXTS).flatMap((name, at) =>
      [true, false].map((isDelta) => [dialect, name, isDelta, 2 * at + Number(isDelta)] as const),
    ),
  ),
)("%s: 15 MiB of %s in one event (as a delta: %p)", async (dialect, name, isDelta, at) => {
  const stream = buildStream(dialect, TEXTS[name] ?? "", isDelta);
  let received = 0;
  await measureAttack(`${dialect}, ${isDelta ? "a delta" : "an end"} of 15 MiB of ${name}`, target, {
    bytes: stream.length,
    run: async () => {
      received = await request(dialect, at, stream, dialect === "chat" && isDelta ? 2 : 1);
    },
  });
  expect(received).toBeLessThan(2 * stream.length);
});
