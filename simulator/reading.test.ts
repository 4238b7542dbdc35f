import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { readBoundary } from "../src/net/wire/multipart.ts";
import { topLevelFields } from "./json-fields.ts";
import { readConversation } from "./model/conversation.ts";
import { readBehaviour } from "./model/model-name.ts";
import { cutToBytes, sized, splitText } from "./model/text.ts";
import { MultipartReader } from "./multipart.ts";

describe("the fields of a JSON object", () => {
  test("are slices that parse to the same values", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.constantFrom(0, 2), (object, indent) => {
        const fields = topLevelFields(JSON.stringify(object, null, indent));
        const values = [...(fields ?? [])].map(([name, slice]): [string, unknown] => [
          name,
          JSON.parse(slice),
        ]);
        expect(new Map(values)).toEqual(new Map(Object.entries(JSON.parse(JSON.stringify(object)))));
      }),
    );
  });

  test("are null for text that is not a complete object", () => {
    for (const text of [
      "",
      "[]",
      "{",
      '{"a"',
      '{"a":',
      '{"a":1',
      '{"a":"x}',
      '{"a":[1}',
      '{"a":1}x',
      '{"a":1,}',
    ]) {
      expect(topLevelFields(text)).toBeNull();
    }
  });
});

test("the question in a prompt that is too long to parse is its last text", () => {
  const long = "x".repeat(50_000);
  const messages = [
    { role: "user", content: long },
    { role: "user", content: [{ type: "text", text: 'And "this" \\ one?' }] },
  ];
  expect(readConversation(JSON.stringify(messages), false)?.question).toBe('And "this" \\ one?');
});

test("a model name sets the pace and the fault", () => {
  expect(readBehaviour("sim-fast@events=60,interval=20ms,bytes=1000,first=0.2s")).toMatchObject({
    responseModel: "sim-fast@events=60,interval=20ms,bytes=1000,first=0.2s-2026-01-01",
    fault: null,
    events: 60,
    intervalMs: 20,
    bytes: 1000,
    firstMs: 200,
  });
  expect(readBehaviour("fault/stall@chunk3,5s,events=9")).toMatchObject({
    events: 9,
    fault: { name: "stall", point: { unit: "chunk", count: 3 }, durationMs: 5_000 },
  });
  expect(readBehaviour("gpt-anything").fault).toBeNull();
});

describe("text", () => {
  const words = fc.string({ unit: "grapheme", maxLength: 200 });

  test("is split into pieces that add up to it, without splitting a character", () => {
    fc.assert(
      fc.property(words, fc.option(fc.integer({ min: 1, max: 50 })), (text, events) => {
        const pieces = [...splitText(text, events)];
        expect(pieces.join("")).toBe(text);
        expect(pieces.every((piece) => piece !== "" && piece.isWellFormed())).toBe(true);
      }),
    );
  });

  test("is sized to exactly the requested bytes, or cut to fit", () => {
    fc.assert(
      fc.property(words, fc.nat(500), (text, bytes) => {
        expect(Buffer.byteLength(sized(text, bytes))).toBe(bytes);
        const cut = cutToBytes(text, bytes);
        expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(bytes);
        expect(text.startsWith(cut)).toBe(true);
      }),
    );
  });
});

describe("a multipart body", () => {
  test("is parsed the same in any chunking", async () => {
    const form = new FormData();
    form.append("prompt", "bluer\r\n--not the end");
    form.append("image[]", new File([Buffer.alloc(5_000, 13)], "a.png", { type: "image/png" }));
    form.append("mask", new File([new Uint8Array([1, 2, 3])], "m.png"));
    const request = new Request("http://x", { method: "POST", body: form });
    const boundary = readBoundary(request.headers.get("content-type") ?? "");
    const bytes = await request.bytes();
    for (const size of [1, 7, 64, 1_000, bytes.length]) {
      const reader = new MultipartReader(boundary ?? "");
      for (let at = 0; at < bytes.length; at += size) reader.push(bytes.subarray(at, at + size));
      const read = reader.end();
      expect(read?.texts).toEqual(new Map([["prompt", "bluer\r\n--not the end"]]));
      expect(read?.files.map((file) => [file.name, file.filename, file.bytes])).toEqual([
        ["image[]", "a.png", 5_000],
        ["mask", "m.png", 3],
      ]);
    }
  });

  test("without its final boundary is rejected", () => {
    const reader = new MultipartReader("b");
    reader.push(Buffer.from('--b\r\nContent-Disposition: form-data; name="a"\r\n\r\nx\r\n--b'));
    expect(reader.end()).toBeNull();
  });
});
