import { describe, expect, test } from "bun:test";
import { wholePart } from "../../base/parts.ts";
import { RecordingSocketWriter } from "../http-server/socket-writer.test-support.ts";
import { FrameWriter } from "./frame-writer.ts";
import { buildFrame, PING, TEXT } from "./frames.ts";

const textFrame = (text: string) => Buffer.from(buildFrame(TEXT, wholePart(Buffer.from(text)), null));

describe("a WebSocket frame", () => {
  for (const length of [0, 1, 125, 126, 16_384, 16_385, 65_535, 65_536, 200_000]) {
    test(`of ${length} bytes is encoded correctly, from a string and from bytes`, () => {
      const writer = new FrameWriter();
      const text = "x".repeat(length);
      const sent = [new RecordingSocketWriter(), new RecordingSocketWriter()] as const;
      writer.text(sent[0], text);
      writer.utf8(sent[1], "", Buffer.from(`--${text}--`), 2, 2 + length);
      for (const { writes } of sent) expect(Buffer.concat(writes).equals(textFrame(text))).toBe(true);
    });
  }

  test("is one write", () => {
    const writer = new FrameWriter();
    const outlet = new RecordingSocketWriter();
    writer.text(outlet, "häl𝄞lo");
    writer.utf8(outlet, '{"ä":', Buffer.from("1}"), 0, 2);
    writer.control(outlet, PING, Buffer.from("?"));
    expect(outlet.writes).toEqual([textFrame("häl𝄞lo"), textFrame('{"ä":1}'), Buffer.from([0x89, 1, 0x3f])]);
  });

  test("that is long includes its prefix", () => {
    const outlet = new RecordingSocketWriter();
    const long = Buffer.alloc(100_000, "x");
    new FrameWriter().utf8(outlet, '{"a":', long, 0, long.length);
    expect(Buffer.concat(outlet.writes).equals(textFrame(`{"a":${long}`))).toBe(true);
  });
});

describe("frames that are held together", () => {
  test("are one write, also with nested holds", () => {
    const writer = new FrameWriter();
    const outlet = new RecordingSocketWriter();
    const outer = writer.hold(outlet);
    writer.text(outlet, "one");
    const inner = writer.hold(outlet);
    writer.text(outlet, "two");
    writer.release(inner);
    expect(outlet.writes).toEqual([]);
    expect(writer.heldBytes(outlet)).toBe(10);
    writer.release(outer);
    expect(outlet.writes).toEqual([Buffer.concat([textFrame("one"), textFrame("two")])]);
    expect(writer.heldBytes(outlet)).toBe(0);
  });

  test("are several writes when they are long", () => {
    const writer = new FrameWriter();
    const outlet = new RecordingSocketWriter();
    const texts = Array.from({ length: 30 }, (_, i) => String(i).padStart(10_000, "."));
    const outer = writer.hold(outlet);
    for (const text of texts) writer.text(outlet, text);
    writer.release(outer);
    expect(outlet.writes.length).toBe(5);
    expect(Buffer.concat(outlet.writes).equals(Buffer.concat(texts.map(textFrame)))).toBe(true);
  });

  test("stay in order with a frame that is too long to be held", () => {
    const writer = new FrameWriter();
    const outlet = new RecordingSocketWriter();
    const texts = ["one", "x".repeat(100_000), "three"];
    const outer = writer.hold(outlet);
    for (const text of texts) writer.text(outlet, text);
    writer.release(outer);
    expect(Buffer.concat(outlet.writes).equals(Buffer.concat(texts.map(textFrame)))).toBe(true);
  });

  test("never reach another connection that is written to meanwhile", () => {
    const writer = new FrameWriter();
    const [held, other] = [new RecordingSocketWriter(), new RecordingSocketWriter()];
    const outer = writer.hold(held);
    writer.text(held, "mine");
    writer.text(other, "yours");
    const inner = writer.hold(other);
    writer.text(other, "and this");
    writer.release(inner);
    writer.text(held, "mine again");
    writer.release(outer);
    expect(held.writes).toEqual([textFrame("mine"), textFrame("mine again")]);
    expect(other.writes).toEqual([textFrame("yours"), textFrame("and this")]);
  });

  test("are discarded on drop", () => {
    const writer = new FrameWriter();
    const [held, other] = [new RecordingSocketWriter(), new RecordingSocketWriter()];
    const outer = writer.hold(held);
    writer.text(held, "gone");
    writer.drop(other);
    expect(writer.heldBytes(held)).toBe(6);
    writer.drop(held);
    writer.release(outer);
    expect(held.writes).toEqual([]);
  });
});
