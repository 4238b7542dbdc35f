import { describe, expect, test } from "bun:test";
import { type MultipartHandler, MultipartParser, type MultipartPart, readBoundary } from "./multipart.ts";

const BOUNDARY = "0123456789abcdef";
const LIMITS = { partsMax: 4, headerBytesMax: 1024 };

/** Records the calls of the parser, with the content of each part joined. */
class Recorder implements MultipartHandler<string> {
  readonly parts: { name: string; filename: string | null; contentType: string | null; content: string }[] =
    [];
  contentCalls = 0;

  startPart({ name, filename, contentType }: MultipartPart): string | null {
    this.parts.push({ name, filename, contentType, content: "" });
    return name === "unwanted" ? "rejected by the handler" : null;
  }

  addContent(bytes: Uint8Array): null {
    this.contentCalls++;
    const part = this.parts.at(-1);
    if (part !== undefined) part.content += Buffer.from(bytes).toString("latin1");
    return null;
  }

  endPart(): null {
    return null;
  }
}

function parse(body: string, chunkBytes: number) {
  const recorder = new Recorder();
  const parser = new MultipartParser(BOUNDARY, LIMITS, recorder);
  const bytes = Buffer.from(body, "latin1");
  for (let at = 0; at < bytes.length; at += chunkBytes) {
    if (!parser.push(bytes.subarray(at, at + chunkBytes))) break;
  }
  return { fault: parser.end(), recorder };
}

const field = (name: string, content: string) =>
  `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${content}\r\n`;

describe("a multipart body", () => {
  const file = `--${BOUNDARY}\r\nContent-Disposition: form-data; name="a"; filename="b c.png"\r\ncontent-type: image/png \r\n\r\n`;
  const content = `\r\n--0123456789abcde\r\n\r\n--\r\r\n${"x".repeat(500)}\r`;
  const body = `${file}${content}\r\n${field("c", "")}--${BOUNDARY}--\r\n`;

  test.each([1, 2, 3, 17, 18, 19, 20, 64, 100, 1_000])("is the same in chunks of %i bytes", (chunkBytes) => {
    const { fault, recorder } = parse(body, chunkBytes);
    expect(fault).toBeNull();
    expect(recorder.parts).toEqual([
      { name: "a", filename: "b c.png", contentType: "image/png", content },
      { name: "c", filename: null, contentType: null, content: "" },
    ]);
  });

  test("is passed on without being joined: one chunk is at most two pieces of content", () => {
    const { recorder } = parse(`${field("a", "x".repeat(100_000))}--${BOUNDARY}--`, 1_000);
    expect(recorder.contentCalls).toBeLessThanOrEqual(202);
  });

  test("is rejected by its handler", () => {
    const { fault, recorder } = parse(`${field("unwanted", "x")}${field("c", "")}--${BOUNDARY}--`, 1_000);
    expect(fault).toBe("rejected by the handler");
    expect(recorder.parts).toHaveLength(1);
  });

  test("of too many parts is rejected", () => {
    const parts = (count: number) => `${field("a", "").repeat(count)}--${BOUNDARY}--`;
    expect(parse(parts(4), 50).fault).toBeNull();
    expect(parse(parts(5), 50).fault).toMatchObject({ reason: "too_many_parts" });
  });
});

describe("the boundary of a content type", () => {
  test.each([
    ["multipart/form-data; boundary=abc", "abc"],
    ["Multipart/Form-Data;boundary=----WebKitFormBoundary7MA4YWxk", "----WebKitFormBoundary7MA4YWxk"],
    ['multipart/form-data; charset=utf-8; Boundary="a b(c):=?"', "a b(c):=?"],
    [`multipart/form-data; boundary=${"x".repeat(70)}`, "x".repeat(70)],
  ])("%s", (type, boundary) => {
    expect(readBoundary(type)).toBe(boundary);
  });

  test.each([
    "multipart/form-data",
    "multipart/form-data; boundary=",
    'multipart/form-data; boundary=""',
    'multipart/form-data; boundary="a "',
    'multipart/form-data; boundary="a\\b"',
    'multipart/form-data; boundary="a',
    "multipart/form-data; boundary=a b",
    "multipart/form-data; boundary=a; boundary=b",
    "multipart/form-data; boundary=ä",
    "multipart/form-data; boundary=a*b",
    `multipart/form-data; boundary=${"x".repeat(71)}`,
    "multipart/mixed; boundary=a",
    "multipart/form-dataX; boundary=a",
    "application/json; boundary=a",
    "",
  ])("is not found in %p", (type) => {
    expect(readBoundary(type)).toBeNull();
  });
});
