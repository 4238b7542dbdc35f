import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { applySplices } from "../../json/splice.ts";
import { readBoundary } from "../../net/wire/multipart.ts";
import {
  type FormLimits,
  type MultipartForm,
  MultipartFormScanner,
  type MultipartResult,
} from "./multipart-form.ts";

const BOUNDARY = "----formdata-7MA4YWxk";
const LIMITS: FormLimits = {
  partsMax: 64,
  headerBytesMax: 1024,
  fieldBytesMax: 4096,
  filesMax: 16,
  fileBytesMax: 100_000,
  wanted: ["model", "stream", "n", "partial_images", "size", "quality"],
};

interface TestPart {
  name: string;
  filename?: string;
  content: Uint8Array;
}

const utf8 = (text: string) => new TextEncoder().encode(text);
const field = (name: string, value: string): TestPart => ({ name, content: utf8(value) });
const file = (name: string, content: string): TestPart => ({
  name,
  filename: "a.png",
  content: utf8(content),
});

function encode(parts: readonly TestPart[]): Uint8Array {
  const pieces = parts.flatMap(({ name, filename, content }) => {
    const disposition = `form-data; name="${name}"${filename === undefined ? "" : `; filename="${filename}"`}`;
    const type = filename === undefined ? "" : "\r\nContent-Type: image/png";
    return [
      utf8(`--${BOUNDARY}\r\nContent-Disposition: ${disposition}${type}\r\n\r\n`),
      content,
      utf8("\r\n"),
    ];
  });
  return new Uint8Array(Buffer.concat([...pieces, utf8(`--${BOUNDARY}--\r\n`)]));
}

/** Splits the body at these offsets, in a buffer that is overwritten as soon as it has been pushed. */
function scan(body: Uint8Array, cuts: readonly number[] = [], limits = LIMITS): MultipartResult {
  const scanner = new MultipartFormScanner(BOUNDARY, limits);
  const places = [...new Set([0, ...cuts.map((cut) => cut % (body.length + 1)), body.length])];
  places.sort((a, b) => a - b);
  for (let i = 1; i < places.length; i++) {
    const chunk = body.slice(places[i - 1], places[i]);
    if (!scanner.push(chunk)) break;
    chunk.fill(0x2d);
  }
  return scanner.end();
}

function readForm(result: MultipartResult): MultipartForm {
  if (!result.ok) throw new Error(`refused: ${result.fault.message}`);
  return result.form;
}

function findFault(text: string | Uint8Array, limits: Partial<FormLimits> = {}) {
  const body = typeof text === "string" ? utf8(text) : text;
  const result = scan(body, [], { ...LIMITS, ...limits });
  return result.ok ? null : { reason: result.fault.reason, param: result.fault.param };
}

const every = (length: number) => Array.from({ length }, (_, place) => place);

const NEARLY = `--${BOUNDARY}`.slice(0, -1);

/** Content that is difficult for parsers: line breaks, dashes, and almost the boundary. */
const nastyContent = fc
  .array(
    fc.oneof(
      fc.constantFrom("\r\n", "\r", "\n", "--", "\r\n--", "\r\n\r\n", "\r\n----", "\0", "é漢"),
      fc.constantFrom(`\n${NEARLY}`, `\r\n${NEARLY}`, `\r\n${NEARLY}\r\n`, `\r\n-${BOUNDARY}--`, BOUNDARY),
      fc.string({ maxLength: 12 }),
    ),
    { maxLength: 12 },
  )
  .map((pieces) => pieces.join(""))
  .filter((text) => !text.includes(`--${BOUNDARY}`))
  .map(utf8);

const fileContent = fc.oneof(nastyContent, fc.uint8Array({ maxLength: 300 }));

const forms = fc
  .tuple(
    fc
      .uniqueArray(fc.constantFrom(...LIMITS.wanted, "prompt", "user"), { maxLength: 6 })
      .chain((names) =>
        fc.tuple(...names.map((name) => nastyContent.map((content): TestPart => ({ name, content })))),
      ),
    fc.array(
      fc.record({
        name: fc.constantFrom("image", "image[]", "mask"),
        filename: fc.constant("a.png"),
        content: fileContent,
      }),
      { maxLength: 5 },
    ),
  )
  .chain(([fields, files]) => {
    const parts: TestPart[] = [...fields, ...files];
    return fc.shuffledSubarray(parts, { minLength: parts.length });
  });

const cuts = fc.array(fc.nat(5000), { maxLength: 40 });

describe("a multipart form", () => {
  test("returns each wanted field with the position of its value, and each file with its size", () => {
    const body = encode([
      field("model", "painter"),
      file("image[]", "first"),
      field("prompt", "a cat"),
      file("image[]", "second!"),
      file("mask", ""),
      field("n", ""),
    ]);
    const form = readForm(scan(body));
    expect([...form.fields.keys()]).toEqual(["model", "n"]);
    const model = form.fields.get("model");
    expect(model?.value).toBe("painter");
    expect(Buffer.from(body.subarray(model?.start, model?.end)).toString()).toBe("painter");
    expect(form.fields.get("n")?.value).toBe("");
    expect(form.files).toEqual([
      { name: "image[]", bytes: 5 },
      { name: "image[]", bytes: 7 },
      { name: "mask", bytes: 0 },
    ]);
  });

  test("is read the same for any split", () => {
    fc.assert(
      fc.property(forms, cuts, (parts, places) => {
        const body = encode(parts);
        expect(scan(body, places)).toEqual(scan(body));
      }),
    );
  });

  test("is read the same byte by byte", () => {
    fc.assert(
      fc.property(forms, (parts) => {
        const body = encode(parts);
        expect(scan(body, every(body.length))).toEqual(scan(body));
      }),
      { numRuns: 30 },
    );
  });

  test("with damage is accepted or rejected the same for any split", () => {
    const damage = fc.array(fc.tuple(fc.nat(5000), fc.constantFrom(...'\r\n-"; a:\0\xff')), {
      minLength: 1,
      maxLength: 3,
    });
    fc.assert(
      fc.property(forms, damage, fc.nat(5000), cuts, (parts, changes, length, places) => {
        const body = encode(parts);
        for (const [place, char] of changes) body[place % body.length] = char.charCodeAt(0);
        const short = length % 3 === 0 ? body.subarray(0, length % body.length) : body;
        expect(scan(short, places)).toEqual(scan(short));
      }),
      { numRuns: 300 },
    );
  });

  test("has the same parts in another parser, before and after its model is replaced", async () => {
    await fc.assert(
      fc.asyncProperty(
        forms,
        fc.string({ unit: "grapheme", maxLength: 40 }),
        async (parts, upstreamModel) => {
          const body = encode(parts);
          const form = readForm(scan(body));
          const texts = parts.filter(({ name }) => LIMITS.wanted.includes(name));
          expect([...form.fields].map(([name, { value }]) => [name, value])).toEqual(
            texts.map(({ name, content }) => [
              name,
              new TextDecoder("utf-8", { ignoreBOM: true }).decode(content),
            ]),
          );
          const model = form.fields.get("model");
          if (!model) return;
          const spliced = applySplices(body, [{ ...model, insert: utf8(upstreamModel) }]);
          const renamed = parts.map((part) =>
            part.name === "model" ? { ...part, content: utf8(upstreamModel) } : part,
          );
          expect(await parseElsewhere(spliced)).toEqual(
            renamed.map(({ name, content }) => [name, Buffer.from(content)]),
          );
        },
      ),
      { numRuns: 150 },
    );
  });

  test("created by the runtime's FormData, as in the SDKs, is accepted", async () => {
    const data = new FormData();
    data.append("model", "painter");
    data.append("image[]", new File(["png"], 'we"ird\r\nname.png', { type: "image/png" }));
    data.append("stream", "true");
    const response = new Response(data);
    const boundary = readBoundary(response.headers.get("content-type") ?? "");
    const scanner = new MultipartFormScanner(boundary ?? "", LIMITS);
    scanner.push(await response.bytes());
    const form = readForm(scanner.end());
    expect(form.fields.get("model")?.value).toBe("painter");
    expect(form.fields.get("stream")?.value).toBe("true");
    expect(form.files).toEqual([{ name: "image[]", bytes: 3 }]);
  });
});

/** The runtime's own form parser. It does not keep the order between texts and files, so the comparison ignores it. */
async function parseElsewhere(body: Uint8Array): Promise<[string, Buffer][]> {
  const headers = { "content-type": `multipart/form-data; boundary=${BOUNDARY}` };
  const data = await new Response(Buffer.from(body), { headers }).formData();
  const parts: [string, Buffer][] = [];
  for (const [name, value] of data.entries()) {
    parts.push([name, Buffer.from(typeof value === "string" ? utf8(value) : await value.bytes())]);
  }
  return parts;
}

const part = (headers: string, content = "x") =>
  `--${BOUNDARY}\r\n${headers}\r\n\r\n${content}\r\n--${BOUNDARY}--`;
const named = (disposition: string) => part(`Content-Disposition: ${disposition}`);

describe("the headers of a part", () => {
  test.each([
    ["in quotes", 'form-data; name="model"'],
    ["without quotes", "form-data; name=model"],
    ["in any case and with any whitespace", 'Form-Data ;\tNAME="model" '],
  ])("contain its name %s", (_, disposition) => {
    expect(readForm(scan(utf8(named(disposition)))).fields.get("model")?.value).toBe("x");
  });

  test.each([
    'form-data; name="image"; filename="C:\\pics\\a.png"',
    'form-data; name="image"; filename="a \\"b\\".png"',
    'form-data; name="image"; filename=""',
    "form-data; name=\"image\"; filename*=UTF-8''%E2%82%AC.png",
    'form-data; name="image"; filename="漢\u2028字.png"',
  ])("mark a file: %s", (disposition) => {
    expect(readForm(scan(utf8(named(disposition)))).files).toEqual([{ name: "image", bytes: 1 }]);
  });

  test.each([
    ["no name", "form-data"],
    ["two names", 'form-data; name="user"; name="model"'],
    ["an escape in the name", 'form-data; name="mod\\el"'],
    ["an extended name", "form-data; name=\"user\"; name*=UTF-8''model"],
    ["another disposition", 'attachment; name="model"'],
    ["a name without its closing quote", 'form-data; name="model'],
    ["text after the name", 'form-data; name="model" x'],
  ])("are rejected with %s", (_, disposition) => {
    expect(findFault(named(disposition))).toEqual({ reason: "malformed", param: null });
  });

  const disposition = 'Content-Disposition: form-data; name="model"';
  test.each([
    ["missing", ""],
    ["without a disposition", "Content-Type: text/plain"],
    ["with two dispositions", `${disposition}\r\nContent-Disposition: form-data; name="user"`],
    ["folded", 'Content-Disposition: form-data;\r\n name="model"'],
    ["with a bare line feed", `X: y\n${disposition}`],
    ["with a space before the colon", 'Content-Disposition : form-data; name="model"'],
    ["with a NUL", `${disposition}\0`],
    ["with a boundary between them", `${disposition}\r\n--${BOUNDARY}: x`],
    ["requesting decoding", `${disposition}\r\nContent-Transfer-Encoding: base64`],
  ])("are rejected when %s", (_, headers) => {
    expect(findFault(part(headers))).toEqual({ reason: "malformed", param: null });
  });

  test("are limited in length", () => {
    const pad = (bytes: number) => `${disposition}\r\nX: ${"y".repeat(bytes - disposition.length - 5)}`;
    expect(findFault(part(pad(200)), { headerBytesMax: 200 })).toBeNull();
    expect(findFault(part(pad(201)), { headerBytesMax: 200 })).toEqual({
      reason: "headers_too_large",
      param: null,
    });
    expect(findFault(`--${BOUNDARY}\r\n${"y".repeat(300)}`, { headerBytesMax: 200 })?.reason).toBe(
      "headers_too_large",
    );
  });
});

describe("a multipart form is rejected", () => {
  const whole = encode([field("model", "painter"), file("image", "png")]);

  test("if it is truncated anywhere", () => {
    const lastNeeded = whole.length - 2;
    for (let length = 0; length < lastNeeded; length++) {
      expect(findFault(whole.subarray(0, length))?.reason).toBe("truncated");
    }
    expect(findFault(whole.subarray(0, lastNeeded))).toBeNull();
  });

  test("if there is text before its first or after its last boundary", () => {
    const text = Buffer.from(whole).toString();
    expect(findFault(`hello\r\n${text}`)?.reason).toBe("malformed");
    expect(findFault(`${text}hello`)?.reason).toBe("malformed");
    expect(findFault(text.replace(/--\r\n$/, "--hello"))?.reason).toBe("malformed");
    expect(findFault(`${text}\r\n`)?.reason).toBe("malformed");
  });

  test.each([
    ["on a line with more text", `a\r\n--${BOUNDARY}x`],
    ["on a line with trailing spaces", `a\r\n--${BOUNDARY} \r\n`],
    ["in the middle of a line", `a--${BOUNDARY}\r\nContent-Disposition: form-data; name="model"\r\n\r\nb`],
    ["after a bare line feed", `a\n--${BOUNDARY}\r\n`],
    ["at its start", `--${BOUNDARY}\r\n`],
  ])("if its boundary is in a file %s, which parsers read differently", (_, content) => {
    expect(findFault(encode([file("image", content)]))?.reason).toBe("malformed");
  });

  test("if a wanted field is repeated", () => {
    expect(findFault(encode([field("model", "a"), field("model", "a")]))).toEqual({
      reason: "repeated_field",
      param: "model",
    });
    expect(findFault(encode([field("user", "a"), field("user", "b")]))).toBeNull();
  });

  test("if a wanted field is a file", () => {
    expect(findFault(encode([file("model", "painter")]))).toEqual({ reason: "malformed", param: "model" });
  });

  test("if a wanted field is not UTF-8", () => {
    const body = encode([{ name: "model", content: new Uint8Array([0x61, 0xff]) }]);
    expect(findFault(body)).toEqual({ reason: "not_text", param: "model" });
  });

  test("if it has too many parts", () => {
    const parts = (count: number) => encode(Array.from({ length: count }, () => field("x", "y")));
    expect(findFault(parts(4), { partsMax: 4 })).toBeNull();
    expect(findFault(parts(5), { partsMax: 4 })).toEqual({ reason: "too_many_parts", param: null });
  });

  test("if it has too many images of any notation, not counting a mask", () => {
    const images = [...every(14).map(() => file("image[]", "a")), file("image", "b"), file("image[15]", "c")];
    expect(findFault(encode([...images, file("mask", "d")]))).toBeNull();
    expect(findFault(encode([...images, file("image", "d")]))).toEqual({
      reason: "too_many_files",
      param: "image",
    });
  });

  test("if a file or a field is one byte over its limit", () => {
    const limits = { fileBytesMax: 10, fieldBytesMax: 5 };
    expect(findFault(encode([file("image", "1234567890"), field("x", "12345")]), limits)).toBeNull();
    expect(findFault(encode([file("image", "12345678901")]), limits)).toEqual({
      reason: "file_too_large",
      param: "image",
    });
    expect(findFault(encode([field("x", "123456")]), limits)).toEqual({
      reason: "field_too_large",
      param: "x",
    });
  });

  test("as soon as a file exceeds its limit, before its end", () => {
    const scanner = new MultipartFormScanner(BOUNDARY, LIMITS);
    scanner.push(encode([file("image", "")]).subarray(0, -BOUNDARY.length - 8));
    let pushed = 0;
    while (scanner.push(new Uint8Array(10_000))) pushed += 10_000;
    expect(pushed).toBe(LIMITS.fileBytesMax);
    expect(scanner.push(new Uint8Array(1))).toBe(false);
  });
});
