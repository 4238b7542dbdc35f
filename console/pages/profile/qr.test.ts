import { describe, expect, test } from "bun:test";
import { qrCode } from "./qr.ts";

/** Reads a code of version 1 to 3 back, which have one block: the format tells the mask, then two columns at a time. */
function read(rows: readonly (readonly boolean[])[]): string {
  const size = rows.length;
  const at = (row: number, column: number) => rows[row]?.[column] === true;
  const mask = ([2, 3, 4] as const).reduce((bits, column) => (bits << 1) | Number(at(8, column)), 0) ^ 0b101;
  const turned = (row: number, column: number) =>
    [
      (row + column) % 2,
      row % 2,
      column % 3,
      (row + column) % 3,
      (Math.floor(row / 2) + Math.floor(column / 3)) % 2,
      ((row * column) % 2) + ((row * column) % 3),
      (((row * column) % 2) + ((row * column) % 3)) % 2,
      (((row + column) % 2) + ((row * column) % 3)) % 2,
    ][mask] === 0;
  const isPattern = (row: number, column: number) =>
    row === 6 ||
    column === 6 ||
    (row < 9 && (column < 9 || column >= size - 8)) ||
    (row >= size - 8 && column < 9) ||
    (size > 21 && Math.abs(row - (size - 7)) <= 2 && Math.abs(column - (size - 7)) <= 2);
  const columns = Array.from({ length: size }, (_, i) => size - 1 - i).filter((column) => column !== 6);
  let bits = "";
  for (let pair = 0; pair < columns.length; pair += 2) {
    for (let step = 0; step < size; step += 1) {
      const row = pair % 4 === 0 ? size - 1 - step : step;
      for (const column of columns.slice(pair, pair + 2)) {
        if (!isPattern(row, column)) bits += at(row, column) === turned(row, column) ? "0" : "1";
      }
    }
  }
  const number = (from: number, length: number) => Number.parseInt(bits.slice(from, from + length), 2);
  expect(number(0, 4)).toBe(0b0100);
  const bytes = Array.from({ length: number(4, 8) }, (_, i) => number(12 + i * 8, 8));
  return new TextDecoder().decode(Uint8Array.from(bytes));
}

describe("a QR code", () => {
  test.each(["a", "otpauth://x", "Größe 寸法", "x".repeat(42)])("of %p can be read back", (text) => {
    expect(read(qrCode(text) ?? [])).toBe(text);
  });

  test.each([
    [14, 21],
    [15, 25],
    [26, 25],
    [27, 29],
    [122, 45],
    [180, 53],
    [181, 57],
    [666, 97],
  ])("of %i bytes is %i modules wide", (bytes, size) => {
    expect(qrCode("x".repeat(bytes))).toHaveLength(size);
  });

  test("is not made of what does not fit", () => {
    expect(qrCode("x".repeat(667))).toBeNull();
  });

  // Drawn once and read by a camera's program: several blocks, version numbers and every alignment pattern.
  test.each([
    [100, "8a3838d5"],
    [200, "61a1175b"],
    [600, "aa7b3ea"],
  ])("of %i bytes stays the one that was read", (bytes, digest) => {
    const rows = qrCode("0123456789".repeat(bytes / 10)) ?? [];
    const text = rows.map((row) => row.map(Number).join("")).join("\n");
    expect(Bun.hash.crc32(text).toString(16)).toBe(digest);
  });
});
