import { expect, test } from "bun:test";
import fc from "fast-check";
import { readSegment } from "./journal-segment.ts";
import { LineBuffer } from "./line-buffer.ts";

const readContent = ({ bytes, length }: LineBuffer) => Buffer.from(bytes.subarray(0, length));

test("a segment of lines is read as the JSON that was written", () => {
  const buffer = new LineBuffer();
  const text = fc.oneof(
    fc.string(),
    fc.string({ unit: "binary", maxLength: 30 }),
    fc.string({ minLength: 5_000, maxLength: 9_000 }),
  );
  fc.assert(
    fc.property(fc.array(text), (texts) => {
      const lines = texts.map((value) => JSON.stringify({ value }));
      const content = lines.map((line) => {
        buffer.setLine(line);
        return readContent(buffer);
      });
      const segment = Buffer.concat([...content, Buffer.alloc(10)]);
      expect(readSegment(segment)).toEqual({ lines, torn: 0, damage: null });
    }),
  );
});

test("a line ends with the checksum of its JSON in eight digits", () => {
  const buffer = new LineBuffer();
  for (let number = 0; number < 2_000; number++) {
    buffer.setLine(`{"number":${number}}`);
    expect(readContent(buffer).toString()).toMatch(/^\{"number":\d+\}\t[0-9a-f]{8}\n$/);
  }
});
