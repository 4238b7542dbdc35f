/**
 * A text as a QR code (ISO/IEC 18004): bytes, error correction M, versions 1 to 20. Drawn here, because a secret goes to
 * nobody else to be drawn.
 */

/** Rows of modules; true is dark. Null for a text that does not fit. */
export function qrCode(text: string): boolean[][] | null {
  const bytes = new TextEncoder().encode(text);
  const version = VERSIONS.find((one) => bytes.length <= dataCodewords(one) - headerBytes(one));
  if (version === undefined) return null;
  const grid = openGrid(version);
  placeCodewords(grid, interleave(dataOf(bytes, version), version));
  const drawn = MASKS.map((_, mask) => masked(grid, mask));
  return drawn.reduce((best, one) => (penalty(one) < penalty(best) ? one : best));
}

interface Version {
  number: number;
  /** Error correction codewords of a block, and blocks, at level M. */
  correction: number;
  blocks: number;
}

const CORRECTION = [10, 16, 26, 18, 24, 16, 18, 22, 22, 26, 30, 22, 22, 24, 24, 28, 28, 26, 26, 26];
const BLOCKS = [1, 1, 1, 2, 2, 4, 4, 4, 5, 5, 5, 8, 9, 9, 10, 10, 11, 13, 14, 16];
const VERSIONS: readonly Version[] = CORRECTION.map((correction, i) => ({
  number: i + 1,
  correction,
  blocks: BLOCKS[i] ?? 1,
}));

function sizeOf({ number }: Version): number {
  return number * 4 + 17;
}

/** All codewords, data and correction: what the patterns leave. */
function allCodewords({ number }: Version): number {
  const alignments = number === 1 ? 0 : Math.floor(number / 7) + 2;
  const patterns = alignments === 0 ? 0 : (25 * alignments - 10) * alignments - 55;
  const versionBits = number >= 7 ? 36 : 0;
  return Math.floor(((16 * number + 128) * number + 64 - patterns - versionBits) / 8);
}

function dataCodewords(version: Version): number {
  return allCodewords(version) - version.correction * version.blocks;
}

/** Four bits of mode and eight or sixteen of length, rounded up. */
function headerBytes({ number }: Version): number {
  return number < 10 ? 2 : 3;
}

function dataOf(bytes: Uint8Array, version: Version): number[] {
  const bits: number[] = [];
  const push = (value: number, count: number) => {
    for (let i = count - 1; i >= 0; i -= 1) bits.push((value >> i) & 1);
  };
  push(0b0100, 4);
  push(bytes.length, version.number < 10 ? 8 : 16);
  for (const byte of bytes) push(byte, 8);
  const total = dataCodewords(version) * 8;
  push(0, Math.min(4, total - bits.length));
  while (bits.length % 8 !== 0) bits.push(0);
  for (let pad = 0xec; bits.length < total; pad ^= 0xec ^ 0x11) push(pad, 8);
  return Array.from({ length: total / 8 }, (_, at) =>
    bits.slice(at * 8, at * 8 + 8).reduce((byte, bit) => (byte << 1) | bit, 0),
  );
}

/** Blocks, each with its correction, read column by column: a stain then hits many blocks a little. */
function interleave(data: readonly number[], version: Version): number[] {
  const { blocks, correction } = version;
  const short = Math.floor(data.length / blocks);
  const longer = data.length % blocks;
  let at = 0;
  const parts = Array.from({ length: blocks }, (_, block) => {
    const length = short + (block >= blocks - longer ? 1 : 0);
    const part = data.slice(at, at + length);
    at += length;
    return { part, correction: correctionOf(part, correction) };
  });
  const columns = (rows: readonly (readonly number[])[]) =>
    Array.from({ length: Math.max(...rows.map(({ length }) => length)) }, (_, column) =>
      rows.flatMap((row) => row[column] ?? []),
    ).flat();
  return [...columns(parts.map(({ part }) => part)), ...columns(parts.map((one) => one.correction))];
}

/** In the field of 256 elements with the polynomial 0x11d. */
function multiply(a: number, b: number): number {
  let product = 0;
  for (let bit = 7; bit >= 0; bit -= 1) {
    product = (product << 1) ^ ((product >> 7) * 0x11d);
    product ^= ((b >> bit) & 1) * a;
  }
  return product;
}

function correctionOf(data: readonly number[], length: number): number[] {
  const divisor = generator(length);
  const rest: number[] = Array(length).fill(0);
  for (const byte of data) {
    const factor = byte ^ (rest.shift() ?? 0);
    rest.push(0);
    for (const [i, coefficient] of divisor.entries())
      rest[i] = (rest[i] ?? 0) ^ multiply(coefficient, factor);
  }
  return rest;
}

/** (x - 1)(x - 2)(x - 4)…, without its first coefficient, which is one. */
function generator(degree: number): number[] {
  const result: number[] = [...Array<number>(degree - 1).fill(0), 1];
  let root = 1;
  for (let n = 0; n < degree; n += 1) {
    for (let i = 0; i < degree; i += 1) {
      result[i] = multiply(result[i] ?? 0, root) ^ (result[i + 1] ?? 0);
    }
    root = multiply(root, 2);
  }
  return result;
}

interface Grid {
  size: number;
  dark: boolean[][];
  /** Belongs to a pattern: no data and no mask there. */
  fixed: boolean[][];
  set(row: number, column: number, dark: boolean): void;
}

function openGrid(version: Version): Grid {
  const size = sizeOf(version);
  const empty = () => Array.from({ length: size }, () => Array<boolean>(size).fill(false));
  const dark = empty();
  const fixed = empty();
  const set: Grid["set"] = (row, column, isDark) => {
    const [line, marks] = [dark[row], fixed[row]];
    if (line === undefined || marks === undefined || column < 0 || column >= size) return;
    line[column] = isDark;
    marks[column] = true;
  };
  const grid: Grid = { size, dark, fixed, set };
  for (let i = 0; i < size; i += 1) {
    set(6, i, i % 2 === 0);
    set(i, 6, i % 2 === 0);
  }
  for (const [row, column] of [
    [3, 3],
    [3, size - 4],
    [size - 4, 3],
  ] as const) {
    square(grid, row, column, 4, (ring) => ring !== 2 && ring !== 4);
  }
  const places = alignments(version);
  const last = places.length - 1;
  for (const [i, row] of places.entries()) {
    for (const [j, column] of places.entries()) {
      const isFinder = (i === 0 && (j === 0 || j === last)) || (i === last && j === 0);
      if (!isFinder) square(grid, row, column, 2, (ring) => ring !== 1);
    }
  }
  formatBits(grid, 0);
  versionBits(grid, version);
  return grid;
}

function square(grid: Grid, row: number, column: number, reach: number, isDark: (ring: number) => boolean) {
  for (let down = -reach; down <= reach; down += 1) {
    for (let right = -reach; right <= reach; right += 1) {
      grid.set(row + down, column + right, isDark(Math.max(Math.abs(down), Math.abs(right))));
    }
  }
}

function alignments(version: Version): number[] {
  if (version.number === 1) return [];
  const count = Math.floor(version.number / 7) + 2;
  const size = sizeOf(version);
  const step = Math.ceil((size - 13) / (2 * count - 2)) * 2;
  return [6, ...Array.from({ length: count - 1 }, (_, i) => size - 7 - (count - 2 - i) * step)];
}

/** Level M and the mask, protected by a code of their own, at two places. */
function formatBits(grid: Grid, mask: number): void {
  let rest = mask;
  for (let i = 0; i < 10; i += 1) rest = (rest << 1) ^ ((rest >> 9) * 0x537);
  const bits = ((mask << 10) | rest) ^ 0x5412;
  const bit = (i: number) => ((bits >> i) & 1) === 1;
  const { size, set } = grid;
  for (let i = 0; i < 15; i += 1) {
    const [row, column] = i < 6 ? [i, 8] : i < 8 ? [i + 1, 8] : i === 8 ? [8, 7] : [8, 14 - i];
    set(row ?? 0, column ?? 0, bit(i));
    if (i < 8) set(8, size - 1 - i, bit(i));
    else set(size - 15 + i, 8, bit(i));
  }
  set(size - 8, 8, true);
}

function versionBits(grid: Grid, { number }: Version): void {
  if (number < 7) return;
  let rest = number;
  for (let i = 0; i < 12; i += 1) rest = (rest << 1) ^ ((rest >> 11) * 0x1f25);
  const bits = (number << 12) | rest;
  for (let i = 0; i < 18; i += 1) {
    const isDark = ((bits >> i) & 1) === 1;
    const [far, near] = [grid.size - 11 + (i % 3), Math.floor(i / 3)];
    grid.set(near, far, isDark);
    grid.set(far, near, isDark);
  }
}

/** Two columns at a time from the right, up and down in turn, past what is fixed. */
function placeCodewords({ size, dark, fixed }: Grid, codewords: readonly number[]): void {
  let at = 0;
  for (let right = size - 1; right >= 1; right -= 2) {
    // The column of the timing pattern is left out.
    if (right === 6) right = 5;
    for (let step = 0; step < size; step += 1) {
      for (const column of [right, right - 1]) {
        const isUpward = ((right + 1) & 2) === 0;
        const row = isUpward ? size - 1 - step : step;
        const line = dark[row];
        if (line === undefined || fixed[row]?.[column] || at >= codewords.length * 8) continue;
        line[column] = (((codewords[at >> 3] ?? 0) >> (7 - (at & 7))) & 1) === 1;
        at += 1;
      }
    }
  }
}

const MASKS: readonly ((row: number, column: number) => boolean)[] = [
  (row, column) => (row + column) % 2 === 0,
  (row) => row % 2 === 0,
  (_, column) => column % 3 === 0,
  (row, column) => (row + column) % 3 === 0,
  (row, column) => (Math.floor(row / 2) + Math.floor(column / 3)) % 2 === 0,
  (row, column) => ((row * column) % 2) + ((row * column) % 3) === 0,
  (row, column) => (((row * column) % 2) + ((row * column) % 3)) % 2 === 0,
  (row, column) => (((row + column) % 2) + ((row * column) % 3)) % 2 === 0,
];

function masked(grid: Grid, mask: number): boolean[][] {
  const turns = MASKS[mask];
  const dark = grid.dark.map((line, row) =>
    line.map((isDark, column) => (grid.fixed[row]?.[column] ? isDark : isDark !== turns?.(row, column))),
  );
  const set: Grid["set"] = (row, column, isDark) => {
    const line = dark[row];
    if (line !== undefined) line[column] = isDark;
  };
  formatBits({ ...grid, dark, set }, mask);
  return dark;
}

/** How hard it would be to read: long runs, blocks, what looks like a corner, and too much of one colour. */
function penalty(dark: readonly (readonly boolean[])[]): number {
  const size = dark.length;
  const lines = [...dark, ...dark.map((_, column) => dark.map((line) => line[column] === true))];
  let points = 0;
  for (const line of lines) {
    const text = line.map((isDark) => (isDark ? "1" : "0")).join("");
    for (const run of text.match(/0{5,}|1{5,}/g) ?? []) points += run.length - 2;
    points += 40 * (text.match(/(?=10111010000|00001011101)/g) ?? []).length;
  }
  for (let row = 0; row < size - 1; row += 1) {
    for (let column = 0; column < size - 1; column += 1) {
      const here = dark[row]?.[column];
      const isBlock =
        dark[row]?.[column + 1] === here &&
        dark[row + 1]?.[column] === here &&
        dark[row + 1]?.[column + 1] === here;
      if (isBlock) points += 3;
    }
  }
  const share = dark.flat().filter(Boolean).length / (size * size);
  return points + 10 * Math.floor(Math.abs(share * 20 - 10));
}
