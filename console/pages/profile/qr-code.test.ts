import { expect, test } from "bun:test";
import jsQR from "jsqr";
import { encodeRows } from "./qr-code.tsx";

const PIXELS_PER_MODULE = 4;

/** Decodes the code as a camera's program does, from black and white pixels. */
function decode(rows: readonly (readonly boolean[])[]): string | undefined {
  const width = rows.length * PIXELS_PER_MODULE;
  const pixels = Uint8ClampedArray.from({ length: width * width * 4 }, (_, i) => {
    const pixel = Math.floor(i / 4);
    const row = rows[Math.floor(pixel / width / PIXELS_PER_MODULE)];
    const isDark = row?.[Math.floor((pixel % width) / PIXELS_PER_MODULE)];
    return isDark && i % 4 !== 3 ? 0 : 255;
  });
  return jsQR(pixels, width, width)?.data;
}

const TEXTS = ["a", "Größe 寸法", "x".repeat(100), "x".repeat(666)];

test.each(TEXTS.map((text, i) => [i, text] as const))(
  "text %i can be read back from its QR code",
  (_, text) => {
    expect(decode(encodeRows(text) ?? [])).toBe(text);
  },
);

test("a text that is too long has no QR code", () => {
  expect(encodeRows("x".repeat(667))).toBeNull();
});
