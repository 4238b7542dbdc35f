import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { joinParts, partsLength, wholeBytesPart } from "../../base/parts.ts";
import { ApiError } from "../../errors.ts";
import { lookUpCodec } from "../../protocols/codecs.ts";
import {
  clientTarget,
  hubRequest,
  NO_TOOL_NAMES,
  streams,
  writeTarget,
} from "../../protocols/hub/codec.test-support.ts";
import type { HubEvent } from "../../protocols/hub/hub-response.ts";
import { type FlowStep, openEventFlow } from "../upstream/event-flow.ts";
import { type CompleteResponse, TranslatedReader } from "./translated-reader.ts";

const utf8 = new TextEncoder();

function openReader(
  client: "chat" | "responses",
  upstream: "chat" | "responses" | "gemini",
  onComplete: ((complete: CompleteResponse) => void) | null = null,
): TranslatedReader {
  return new TranslatedReader({
    upstream: lookUpCodec(upstream).openStreamReader(NO_TOOL_NAMES),
    writer: lookUpCodec(client).openStreamWriter(clientTarget(hubRequest(client))),
    sink: null,
    reportsIncomplete: client === "responses",
    onComplete,
    hasLosses: () => false,
    onUsage: () => {},
  });
}

function writeUpstream(dialect: "chat" | "responses", events: readonly HubEvent[]): Uint8Array {
  const writer = lookUpCodec(dialect).openStreamWriter(clientTarget(hubRequest(dialect)));
  return utf8.encode(events.map((event) => writer.write(event)).join(""));
}

function flow(reader: TranslatedReader, chunks: readonly Uint8Array[]): { text: string; steps: FlowStep[] } {
  const events = openEventFlow(reader, 1_000_000);
  const steps = chunks.map((bytes) => events.take(wholeBytesPart(bytes)));
  const text = steps
    .map(({ parts, terminal }) => Buffer.from(joinParts([...parts, ...(terminal ?? [])])).toString())
    .join("");
  return { text, steps };
}

describe.each([
  ["chat", "responses"],
  ["responses", "chat"],
] as const)("a %s client of a %s upstream", (client, upstream) => {
  test("receives the same stream wherever the upstream's bytes are cut", () => {
    fc.assert(
      fc.property(streams, fc.array(fc.nat(100_000), { maxLength: 6 }), (events, cuts) => {
        const bytes = writeUpstream(upstream, events);
        const ends = [...new Set(cuts.map((cut) => cut % bytes.length))].sort((a, b) => a - b);
        const chunks = [0, ...ends].map((start, i) => bytes.subarray(start, ends[i] ?? bytes.length));
        const whole = flow(openReader(client, upstream), [bytes]);
        expect(flow(openReader(client, upstream), chunks).text).toBe(whole.text);
        expect(whole.steps.at(-1)?.terminal).not.toBeNull();
      }),
    );
  });

  test("reports the usage that the upstream reports", () => {
    fc.assert(
      fc.property(streams, (events) => {
        const reader = openReader(client, upstream);
        flow(reader, [writeUpstream(upstream, events)]);
        const reported = events.find(({ type }) => type === "usage");
        // A response of the Responses API always has a tier.
        const tier = upstream === "responses" ? "standard" : null;
        expect(reader.usage).toEqual(reported?.type === "usage" ? { ...reported.usage, tier } : null);
      }),
    );
  });
});

const chunk = (delta: object, finish: string | null = null) =>
  utf8.encode(
    `data: ${JSON.stringify({ id: "c", created: 1, choices: [{ delta, finish_reason: finish }] })}\n\n`,
  );

test("nothing is content before the first text or call", () => {
  const { steps } = flow(openReader("responses", "chat"), [
    chunk({ role: "assistant", content: "" }),
    chunk({ content: "Hi" }),
  ]);
  expect(steps.map(({ hasContent }) => hasContent)).toEqual([false, true]);
});

test("an error of the upstream before content is a failure, so that another account can serve", () => {
  const { steps, text } = flow(openReader("responses", "chat"), [
    utf8.encode('data: {"error":{"code":"server_error","message":"overloaded"}}\n\n'),
  ]);
  expect(steps[0]?.error).toMatchObject({ code: "server_error" });
  expect(text).toBe("");
});

test("a stream that closes after its finish reason is complete, and one that closes before is not", () => {
  const finished = openReader("responses", "chat");
  flow(finished, [chunk({ content: "Hi" }), chunk({}, "stop")]);
  expect(finished.isCompleteWithoutTerminal("closed")).toBe(true);
  expect(new TextDecoder().decode(finished.endMarker ?? undefined)).toContain("response.completed");
  const open = openReader("responses", "chat");
  flow(open, [chunk({ content: "Hi" })]);
  expect(open.isCompleteWithoutTerminal("closed")).toBe(false);
});

test("a broken stream ends with one response.failed that continues the numbers of the events", () => {
  const reader = openReader("responses", "chat");
  const { text } = flow(reader, [chunk({ content: "Hi" })]);
  const count = text.split("\n\n").length - 1;
  const error = new ApiError("upstream_error", "The upstream failed.");
  const failure = new TextDecoder().decode(reader.failure(error, "req_1"));
  expect(failure).toStartWith("event: response.failed\n");
  expect(failure).toContain(`"sequence_number":${count}`);
  expect(failure).toEndWith("data: [DONE]\n\n");
});

test("the output and the response object are known before the terminal event is returned", () => {
  const completed: CompleteResponse[] = [];
  const reader = openReader("responses", "chat", (complete) => completed.push(complete));
  const { text } = flow(reader, [
    chunk({ content: "Hi" }),
    chunk({}, "stop"),
    utf8.encode("data: [DONE]\n\n"),
  ]);
  expect(completed).toMatchObject([{ output: [{ kind: "message", parts: [{ text: "Hi" }] }] }]);
  expect(text).toContain(`"response":${completed[0]?.response}`);
});

describe("a chat upstream without bounds", () => {
  const chunk = (text: string) =>
    utf8.encode(
      `data: ${JSON.stringify({ choices: [{ delta: { tool_calls: [{ index: 0, function: { name: "f", arguments: text } }] } }] })}\n\n`,
    );
  const MIB = 1024 * 1024;

  test("ends with an error when its text is longer than that of any model", () => {
    const events = openEventFlow(openReader("responses", "chat"), 2 * MIB);
    const piece = chunk("x".repeat(MIB));
    const errors = Array.from({ length: 18 }, () => events.take(wholeBytesPart(piece)).error);
    const first = errors.findIndex((error) => error !== null);
    expect(first).toBe(3);
    expect(errors[first]).toMatchObject({
      isOutOfBounds: true,
      message: "The response has more than 4,194,304 characters.",
    });
  });

  test("ends with an error when its arguments are nested too deeply to be written", () => {
    const take = (depth: number) => {
      const call = `{"function":{"name":"f","arguments":${"[".repeat(depth)}${"]".repeat(depth)}}}`;
      const bytes = utf8.encode(`data: {"choices":[{"delta":{"tool_calls":[${call}]}}]}\n\n`);
      return openEventFlow(openReader("responses", "chat"), 2 * MIB).take(wholeBytesPart(bytes)).error;
    };
    expect(take(200_000)?.message).toBe("The response has more than 65,536 JSON values in one event.");
    expect(take(20_000)?.message).toBe("The response has more than 128 levels of nesting.");
  });

  test("ends with an error when one event has more text than is parsed at once, and passes a long image", () => {
    const take = (text: string) => {
      const bytes = utf8.encode(`data: {"choices":[{"delta":{"content":"Hi"},"x":"${text}"}]}\n\n`);
      return openEventFlow(openReader("responses", "chat"), 16 * MIB).take(wholeBytesPart(bytes)).error;
    };
    expect(take('\\"'.repeat(MIB))?.message).toBe(
      "The response has more than 2,097,152 bytes of JSON in one event.",
    );
    expect(take("A".repeat(8 * MIB))).toBeNull();
  });

  test("has one event for the pieces of a text that arrive together", () => {
    const parts = Array.from({ length: 1_000 }, () => ({ text: "a" }));
    const bytes = utf8.encode(`data: ${JSON.stringify({ candidates: [{ content: { parts } }] })}\n\n`);
    const step = openEventFlow(openReader("responses", "gemini"), MIB).take(wholeBytesPart(bytes));
    expect(partsLength(step.parts)).toBeLessThan(4_096);
  });
});

test("arguments of a client that are nested too deeply are passed on as text", () => {
  const deep = `${'{"a":'.repeat(200_000)}1${"}".repeat(200_000)}`;
  const request = lookUpCodec("chat").readRequest(
    {
      messages: [
        { role: "user", content: "Hello" },
        { role: "assistant", tool_calls: [{ id: "c", function: { name: "f", arguments: deep } }] },
        { role: "tool", tool_call_id: "c", content: "done" },
      ],
    },
    { publicModel: "m", stream: false },
  );
  for (const dialect of ["messages", "gemini"] as const) {
    const { body } = lookUpCodec(dialect).writeRequest(request, writeTarget());
    expect(JSON.stringify(body)).toContain('\\"a\\"');
  }
});
