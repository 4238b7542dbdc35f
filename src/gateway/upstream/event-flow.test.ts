import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { joinParts, type Part, partsLength, wholeBytesPart } from "../../base/parts.ts";
import { openChatReader } from "../../protocols/chat/chat-stream.ts";
import { openResponsesReader } from "../../protocols/responses/responses-stream.ts";
import type { StreamReader } from "../../protocols/shared/stream.ts";
import { type FlowStep, openEventFlow } from "./event-flow.ts";

const utf8 = new TextEncoder();
const decoder = new TextDecoder();
const LARGE = 100_000;

function responses(): StreamReader {
  return openResponsesReader({ publicModel: "fast", depthMax: 32, nowMs: () => 0 });
}

function chat(): StreamReader {
  return openChatReader({ publicModel: "fast", hidesUsage: true, choices: 1, depthMax: 32 });
}

const event = (type: string, rest: Record<string, unknown> = {}) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...rest })}\n\n`;
const RESPONSE = { id: "resp_1", model: "gpt-6-eu" };
const CREATED = event("response.created", { sequence_number: 0, response: RESPONSE });
const delta = (text: string) => event("response.output_text.delta", { delta: text });
const COMPLETED = event("response.completed", { response: RESPONSE });
const chunk = (rest: Record<string, unknown>) =>
  `data: ${JSON.stringify({ id: "c", model: "gpt-6-eu", ...rest })}\n\n`;
const textChunk = (content: string) => chunk({ choices: [{ index: 0, delta: { content } }] });

function take(reader: StreamReader, ...chunks: string[]): FlowStep[] {
  const flow = openEventFlow(reader, LARGE);
  return chunks.map((text) => flow.take(wholeBytesPart(utf8.encode(text))));
}

const readText = (parts: readonly Part[] | null | undefined) => decoder.decode(joinParts(parts ?? []));
const renamed = (text: string) => text.replaceAll("gpt-6-eu", "fast");

describe("one chunk of an upstream stream", () => {
  test("yields its complete events, with the terminal event apart", () => {
    const [step] = take(responses(), CREATED + delta("a") + COMPLETED);
    expect(readText(step?.parts)).toBe(renamed(CREATED) + delta("a"));
    expect(readText(step?.terminal)).toBe(renamed(COMPLETED));
  });

  test("yields nothing while an event is incomplete", () => {
    const [first, second] = take(responses(), delta("a").slice(0, -1), "\n");
    expect(first?.parts).toHaveLength(0);
    expect(readText(second?.parts)).toBe(delta("a"));
  });

  test("is relayed without a copy if nothing in it changes", () => {
    const bytes = utf8.encode(delta("a") + delta("b"));
    const { parts } = openEventFlow(responses(), LARGE).take(wholeBytesPart(bytes));
    expect(parts).toHaveLength(1);
    expect(parts[0]?.bytes).toBe(bytes);
    expect(partsLength(parts)).toBe(bytes.length);
  });

  test("yields the events around an event that is not relayed", () => {
    const [step] = take(responses(), `${delta("a")}data: nope\n\n${delta("b")}: ping\n\n${delta("c")}`);
    expect(readText(step?.parts)).toBe(delta("a") + delta("b") + delta("c"));
  });

  test("reports whether it contained content", () => {
    const [first, second, third] = take(responses(), CREATED, delta("a"), CREATED);
    expect([first, second, third].map((step) => step?.hasContent)).toEqual([false, true, false]);
  });

  test("drops comments, and does not count them as data events", () => {
    const [step] = take(responses(), `: ping\n\n${delta("a")}: ping\n\n`);
    expect(step?.dataEvents).toBe(1);
    expect(readText(step?.parts)).toBe(delta("a"));
  });

  test("counts data events that are not relayed", () => {
    const [step] = take(chat(), textChunk("a") + chunk({ choices: [], usage: { prompt_tokens: 1 } }));
    expect(step?.dataEvents).toBe(2);
    expect(readText(step?.parts)).toBe(renamed(textChunk("a")));
  });

  test("ends with the upstream's error: earlier events are relayed, later ones are dropped", () => {
    const [step] = take(responses(), delta("a") + event("error", { code: "c", message: "m" }) + delta("b"));
    expect(readText(step?.parts)).toBe(delta("a"));
    expect(step?.error).toMatchObject({ code: "c", message: "m" });
  });

  test("ends with the terminal event: later events are dropped", () => {
    const [step] = take(responses(), COMPLETED + delta("b") + COMPLETED);
    expect(step?.parts).toHaveLength(0);
    expect(readText(step?.terminal)).toBe(renamed(COMPLETED));
  });

  test("with a too large event reports it after the events before it", () => {
    const flow = openEventFlow(responses(), 200);
    const step = flow.take(wholeBytesPart(utf8.encode(delta("a") + delta("x".repeat(300)))));
    expect(step.isTooLarge).toBe(true);
    expect(readText(step.parts)).toBe(delta("a"));
  });
});

describe("a stream in arbitrary chunks", () => {
  const streams: readonly [name: string, text: string, open: () => StreamReader][] = [
    [
      "responses",
      `: hi\r\n\r\n${CREATED}${delta("h\u00e9llo")}${delta("\u{1f600}")}data: nope\n\n${COMPLETED}data: [DONE]\n\n`,
      responses,
    ],
    [
      "chat",
      `${textChunk("")}${textChunk("h\u00e9")}${textChunk("llo")}: ping\n\n${textChunk("!")}data: [DONE]\n\n`,
      chat,
    ],
  ];

  function whole(steps: FlowStep[]): string {
    return steps.map((step) => readText(step.parts) + readText(step.terminal)).join("");
  }

  test.each(streams)("is the same %s stream when split at any byte", (_, text, open) => {
    const bytes = utf8.encode(text);
    const expected = whole([openEventFlow(open(), LARGE).take(wholeBytesPart(bytes))]);
    expect(expected).toContain("llo");
    for (let cut = 0; cut <= bytes.length; cut++) {
      const flow = openEventFlow(open(), LARGE);
      const [before, after] = [bytes.slice(0, cut), bytes.slice(cut)];
      expect(whole([flow.take(wholeBytesPart(before)), flow.take(wholeBytesPart(after))])).toBe(expected);
    }
    const flow = openEventFlow(open(), LARGE);
    expect(whole(Array.from(bytes, (byte) => flow.take(wholeBytesPart(Uint8Array.of(byte)))))).toBe(expected);
  });

  test.each(streams)("no write of the %s stream contains a partial event", (_, text, open) => {
    const bytes = utf8.encode(text);
    fc.assert(
      fc.property(fc.array(fc.nat(bytes.length), { maxLength: 12 }), (places) => {
        const cuts = [0, ...places.sort((a, b) => a - b), bytes.length];
        const flow = openEventFlow(open(), LARGE);
        for (const [i, from] of cuts.slice(0, -1).entries()) {
          const step = flow.take(wholeBytesPart(bytes.slice(from, cuts[i + 1])));
          for (const written of [readText(step.parts), readText(step.terminal)]) {
            if (written !== "") expect(written).toMatch(/^(?:(?:event: [^\n]+\n)?data: [^\n]+\n\n)+$/);
          }
        }
      }),
    );
  });
});
