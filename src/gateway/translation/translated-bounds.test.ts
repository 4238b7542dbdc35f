/** A translated stream is bounded: the text of one event, and all events together. */

import { describe, expect, test } from "bun:test";
import { responseBounds } from "../../count-limits.ts";
import { lookUpCodec } from "../../protocols/codecs.ts";
import { clientTarget, hubRequest, NO_TOOL_NAMES } from "../../protocols/hub/codec.test-support.ts";
import { TranslatedReader } from "./translated-reader.ts";

const { eventTextCharsMax, streamBytesMax } = responseBounds;

const describeBound = (max: number, what: string) =>
  `The response has more than ${max.toLocaleString("en-US")} ${what}.`;

describe("a translated stream", () => {
  function openReader(): TranslatedReader {
    return new TranslatedReader({
      upstream: lookUpCodec("chat").openStreamReader(NO_TOOL_NAMES),
      writer: lookUpCodec("responses").openStreamWriter(clientTarget(hubRequest("responses"))),
      sink: null,
      reportsIncomplete: true,
      onComplete: null,
      hasLosses: () => false,
      onUsage: () => {},
    });
  }

  /** The message of the error that ends the stream; null if the stream continues. */
  function send(reader: TranslatedReader, event: string): string | null {
    const bytes = Buffer.from(event);
    const verdict = reader.read(bytes, 0, bytes.length);
    return verdict.phase === "failed" ? verdict.error.message : null;
  }

  test("has bounded text in one event", () => {
    const text = (chars: number) =>
      `data: ${JSON.stringify({ choices: [{ delta: { content: "x".repeat(chars) } }] })}\n\n`;
    expect(send(openReader(), text(eventTextCharsMax))).toBeNull();
    expect(send(openReader(), text(eventTextCharsMax + 1))).toBe(
      describeBound(eventTextCharsMax, "characters in one event"),
    );
  });

  test("has bounded bytes", () => {
    const reader = openReader();
    const empty = 'data: {"image":""}\n\n';
    const eventBytes = streamBytesMax / 16;
    const event = empty.replace('""', `"${"x".repeat(eventBytes - empty.length)}"`);
    for (let sent = 0; sent < streamBytesMax; sent += eventBytes) expect(send(reader, event)).toBeNull();
    expect(send(reader, empty)).toBe(describeBound(streamBytesMax, "bytes"));
  });
});
