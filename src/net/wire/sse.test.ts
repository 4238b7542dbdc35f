import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { wholeBytesPart } from "../../base/parts.ts";
import { blockTexts, cutAt, cuts, event, LARGE, latin1, split, streams, text } from "./sse.test-support.ts";
import { isDone, isPlain, readEvent, SseSplitter } from "./sse.ts";

describe("splitting a stream", () => {
  test("blank lines separate the blocks", () => {
    expect(blockTexts("data: a\n\nevent: x\ndata: b\n\n\n\ndata: c\n\ndata: rest")).toEqual([
      "data: a",
      "event: x\ndata: b",
      "data: c",
    ]);
  });

  test("a block within one chunk is passed on without a copy", () => {
    const chunk = latin1("data: a\n\ndata: b\n\n");
    expect(split([chunk]).blocks).toEqual([
      { bytes: chunk, start: 0, end: 7, kind: "event" },
      { bytes: chunk, start: 9, end: 16, kind: "event" },
    ]);
    expect(split([chunk]).blocks.every((block) => block.bytes === chunk)).toBe(true);
  });

  test("bytes around a chunk in its array are ignored", () => {
    const around = "\n\r\ndata: x\n\n";
    const texts = ["data: a\n", "\nevent: x\nda", "ta: b\n\n", "", "data: c", "\r\n\r\n"];
    const splitter = new SseSplitter(LARGE);
    const blocks: string[] = [];
    for (const chunk of texts) {
      const bytes = latin1(around + chunk + around);
      const piece = { bytes, start: around.length, end: around.length + chunk.length };
      splitter.push(piece, (block, start, end) => blocks.push(text(block, start, end)));
    }
    expect(blocks).toEqual(["data: a", "event: x\ndata: b", "data: c"]);
    expect(splitter.end()).toBe(0);
  });

  test("CR, LF and CRLF all end a line, also across chunks", () => {
    expect(blockTexts("event: x\r\ndata: a\r\n\r\ndata: b\r\rdata: c\n\r\n")).toEqual([
      "event: x\ndata: a",
      "data: b",
      "data: c",
    ]);
    expect(blockTexts("data: a\r", "\n\r", "\ndata: b\r", "\r", "\ndata: c\n", "\n")).toEqual([
      "data: a",
      "data: b",
      "data: c",
    ]);
  });

  test("a block that ends in CR is emitted at once, not with the next chunk", () => {
    expect(blockTexts("data: a\r\n\r")).toEqual(["data: a"]);
  });

  test("comments are reported as such, unless they are part of an event", () => {
    expect(blockTexts(": ping\n\n:\n: x\n\n: y\ndata: a\n\n")).toEqual([
      "(: ping)",
      "(:\n: x)",
      ": y\ndata: a",
    ]);
  });

  test("one byte order mark at the start is dropped, whole or in pieces; elsewhere it is data", () => {
    const bom = "\xef\xbb\xbf";
    expect(blockTexts(`${bom}data: a\n\n`)).toEqual(["data: a"]);
    expect(blockTexts("\xef", "\xbb", "\xbfdata: a\n\n")).toEqual(["data: a"]);
    expect(blockTexts("\xef", "\xbbdata: a\n\n")).toEqual(["\xef\xbbdata: a"]);
    expect(blockTexts(`${bom}${bom}data: a\n\n${bom}data: b\n\n`)).toEqual([
      `${bom}data: a`,
      `${bom}data: b`,
    ]);
  });

  test("a long block in pieces is emitted in an array that ends with it, which searches do not leave", () => {
    const block = `data: ${"a".repeat(3 * 1024 * 1024)}`;
    const pieces = Array.from({ length: 100 }, (_, at) => block.slice(at * 32 * 1024, (at + 1) * 32 * 1024));
    const { blocks } = split([...pieces, "\n\n"].map(latin1), { ...LARGE, eventBytesMax: 16 * 1024 * 1024 });
    expect(blocks.map(({ bytes, start, end }) => [text(bytes, start, end) === block, bytes.length])).toEqual([
      [true, block.length + 2],
    ]);
  });

  test("an incomplete block is not emitted, and its size is reported at the end", () => {
    expect(split([latin1("data: a\n\ndata: b\n")])).toMatchObject({ blocks: [{ end: 7 }], left: 8 });
    expect(split([latin1("data: a\n\n")]).left).toBe(0);
    expect(split([latin1("\xef\xbb")]).left).toBe(2);
  });

  test("a too large block ends the splitting, for any chunks", () => {
    const stream = "data: a\n\ndata: 12345\n\ndata: b\n\n";
    const whole = [latin1(stream)];
    const bytewise = [...stream].map(latin1);
    for (const chunks of [whole, bytewise]) {
      expect(split(chunks, { ...LARGE, eventBytesMax: 11 })).toMatchObject({ open: true });
      const { blocks, open } = split(chunks, { ...LARGE, eventBytesMax: 10 });
      expect(blocks.map(({ bytes, start, end }) => text(bytes, start, end))).toEqual(["data: a"]);
      expect(open).toBe(false);
    }
  });

  test("a block of too many lines ends the splitting, for any chunks", () => {
    for (const line of [":\n", "data\n", "a\n"]) {
      const lines = (count: number) => `${line.repeat(count)}\n`;
      const stream = `data: a\n\n${lines(4)}data: b\n\n${lines(5)}data: c\n\n`;
      for (const chunks of [[latin1(stream)], [...stream].map(latin1)]) {
        const { blocks, open } = split(chunks, { ...LARGE, eventLinesMax: 4 });
        expect(blocks.map(({ bytes, start, end }) => text(bytes, start, end))).toEqual([
          "data: a",
          lines(4).trimEnd(),
          "data: b",
        ]);
        expect(open).toBe(false);
      }
    }
  });

  test("an LF that completes a CRLF adds nothing to the size of a block", () => {
    expect(split(["abc\r", "\n", "\r\n"].map(latin1), { ...LARGE, eventBytesMax: 3 })).toMatchObject({
      open: true,
      left: 0,
    });
  });

  test("an endless line is rejected before its end", () => {
    const splitter = new SseSplitter({ ...LARGE, eventBytesMax: 100 });
    const chunk = latin1("x".repeat(40));
    const verdicts = [1, 2, 3, 4].map(() => splitter.push(wholeBytesPart(chunk), () => {}));
    expect(verdicts).toEqual([true, true, false, false]);
  });
});

describe("reading a block", () => {
  test("type and data are found, with or without the space", () => {
    expect(event("event: response.created\ndata: {}")).toEqual({ type: "response.created", data: "{}" });
    expect(event("data:{}\nevent:x")).toEqual({ type: "x", data: "{}" });
    expect(event("data:  two")).toEqual({ type: null, data: " two" });
  });

  test("several data lines are joined by LF", () => {
    expect(event("data: {\ndata: }\ndata").data).toBe("{\n}\n");
    expect(event("data\ndata: x").data).toBe("\nx");
  });

  test("other fields, comments and longer names are ignored", () => {
    expect(event("id: 1\nretry: 5\n: data: x\ndatabase: y\nevents: z\n data: w\nData: v")).toEqual({
      type: null,
      data: null,
    });
  });

  test("an empty field is an empty value; an empty type is null", () => {
    expect(event("event: x\nevent\ndata")).toEqual({ type: null, data: "" });
    expect(event("data:")).toEqual({ type: null, data: "" });
  });

  test("[DONE] is recognized exactly", () => {
    const done = (value: string) => isDone({ bytes: latin1(`x${value}`), start: 1, end: value.length + 1 });
    expect(["[DONE]", "[DONE] ", "[done]", "[DONE", ""].map(done)).toEqual([
      true,
      false,
      false,
      false,
      false,
    ]);
  });
});

describe("arbitrary bytes in arbitrary chunks", () => {
  test("yield the same blocks, kinds, limit and leftover for any chunks", () => {
    fc.assert(
      fc.property(streams, cuts, fc.integer({ min: 1, max: 30 }), (input, places, eventBytesMax) => {
        const view = (chunks: Uint8Array[]) => {
          const { blocks, open, left } = split(chunks, { ...LARGE, eventBytesMax });
          return { blocks: blocks.map((b) => [b.kind, text(b.bytes, b.start, b.end + 2)]), open, left };
        };
        const whole = view([latin1(input)]);
        expect(view(cutAt(latin1(input), places))).toEqual(whole);
        for (const [, block] of whole.blocks) expect(block?.endsWith("\n\n")).toBe(true);
      }),
      { numRuns: 3000 },
    );
  });

  test("yield one large event from thousands of pieces", () => {
    const data = "0123456789".repeat(20_000);
    const bytes = latin1(`data: ${data}\n\n`);
    const chunks = Array.from({ length: Math.ceil(bytes.length / 7) }, (_, i) =>
      bytes.slice(i * 7, i * 7 + 7),
    );
    const { blocks } = split(chunks);
    expect(blocks.map(({ bytes, start, end }) => text(bytes, start, end))).toEqual([`data: ${data}`]);
  });
});

describe("a block that can be relayed unchanged", () => {
  const plain = (block: string) => {
    const bytes = new TextEncoder().encode(`${block}\n\n`);
    return isPlain(readEvent(bytes, 0, bytes.length - 2), bytes, 0, bytes.length - 2);
  };

  test("has an event line and a data line and nothing else", () => {
    expect(plain('event: a\ndata: {"x":1}')).toBe(true);
    for (const other of [
      'data: {"x":1}',
      "event: a",
      'id: 7\nevent: a\ndata: {"x":1}',
      'event: a\nid: 7\ndata: {"x":1}',
      'event: a\ndata: {"x":1}\nretry: 7',
      'event: a\ndata: {"x":1}\n: comment',
      'event: a\ndata: {"x"\ndata: :1}',
      'event:a\ndata: {"x":1}',
      'event: a\ndata:{"x":1}',
    ]) {
      expect({ other, plain: plain(other) }).toEqual({ other, plain: false });
    }
  });
});
