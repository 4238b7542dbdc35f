import { expect, test } from "bun:test";
import fc from "fast-check";
import { inlineMarkers, measureInputSize } from "./input-size.ts";
import { GEMINI_MEDIA_EXAMPLES, MEDIA_EXAMPLES } from "./media-members.test-support.ts";
import { GEMINI_BASE64_MEMBERS } from "./media-members.ts";

const measureSize = (json: unknown) => measureInputSize(Buffer.from(JSON.stringify(json)));
const BASE64 = "iVBORw0KGgo".repeat(3_000);
const chat = (content: unknown) => ({ model: "m", messages: [{ role: "user", content }] });

test("text is counted in bytes", () => {
  const body = chat("Grüße, 世界");
  expect(measureSize(body)).toEqual({ textBytes: Buffer.byteLength(JSON.stringify(body)), media: 0 });
});

test("images, files and audio do not count as text", () => {
  const body = chat([
    { type: "text", text: "What is this?" },
    { type: "image_url", image_url: { url: `data:image/png;base64,${BASE64}` } },
    { type: "input_image", image_url: `data:image/png;base64,${BASE64}` },
    { type: "file", file: { filename: "a.pdf", file_data: `data:application/pdf;base64,${BASE64}` } },
    { type: "input_audio", input_audio: { format: "wav", data: BASE64 } },
  ]);
  const { textBytes, media } = measureSize(body);
  expect(media).toBe(4);
  expect(textBytes).toBeLessThan(600);
});

test.each(MEDIA_EXAMPLES)("the data of `$name` does not count as text, inline: $isInline", (example) => {
  const { textBytes, media } = measureSize(chat([example.part]));
  expect(media).toBe(example.isInline ? 1 : 0);
  expect(textBytes).toBeLessThan(200);
});

test.each(GEMINI_MEDIA_EXAMPLES)("the data of Gemini's `$name` does not count as text", (example) => {
  const body = Buffer.from(JSON.stringify({ contents: [{ parts: [example.part] }] }));
  const { textBytes, media } = measureInputSize(body, inlineMarkers(GEMINI_BASE64_MEMBERS));
  expect(media).toBe(example.isInline ? 1 : 0);
  expect(textBytes).toBeLessThan(200);
});

test.each([
  ["a text", `data:image/png;base64,${BASE64}`],
  ["an address that is no data URL", [{ type: "image_url", image_url: { url: `x;base64,${BASE64}` } }]],
])("text that looks like an image is counted as text: %s", (_, content) => {
  const body = chat(content);
  expect(measureSize(body)).toEqual({ textBytes: JSON.stringify(body).length, media: 0 });
});

test("no body makes it fail, and text never exceeds the body size", () => {
  const bits = fc.constantFrom(
    '"',
    ":",
    "\\",
    ";base64,",
    '"input_audio"',
    '"data"',
    '"url":"',
    "{",
    " ",
    "x",
  );
  fc.assert(
    fc.property(fc.array(bits, { maxLength: 30 }), (parts) => {
      const body = Buffer.from(parts.join(""));
      const { textBytes } = measureInputSize(body);
      expect(textBytes).toBeGreaterThanOrEqual(0);
      expect(textBytes).toBeLessThanOrEqual(body.length);
    }),
    { numRuns: 2_000 },
  );
});
