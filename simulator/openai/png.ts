/** Generates PNG images. */

import { crc32, deflateSync } from "node:zlib";

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
/** Ancillary, private, safe to copy: viewers skip it. */
const PADDING_CHUNK = "siMp";
const CHUNK_OVERHEAD_BYTES = 12;
/** Four bits per pixel: an index into a palette of sixteen colours. */
const DEPTH_BITS = 4;
const COLOURS = 16;
const INDEXED = 3;
const SHAPES_MAX = 16;

export interface PictureSize {
  width: number;
  height: number;
}

export interface Picture extends PictureSize {
  hash: number;
  /** Padded to this size if the image is smaller. */
  bytes: number | null;
}

/**
 * A gradient with colours from the hash. Its pixels depend only on the size, so they are compressed once per size.
 */
export function gradientPng({ hash, bytes, width, height }: Picture): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([DEPTH_BITS, INDEXED, 0, 0, 0], 8);
  const parts = [
    SIGNATURE,
    chunk("IHDR", header),
    chunk("PLTE", palette(hash)),
    chunk("IDAT", compressPixels({ width, height })),
  ];
  const end = chunk("IEND", Buffer.alloc(0));
  const size = parts.reduce((sum, part) => sum + part.length, end.length);
  const padding = (bytes ?? 0) - size - CHUNK_OVERHEAD_BYTES;
  if (padding >= 0) parts.push(chunk(PADDING_CHUNK, Buffer.alloc(padding, 0x2e)));
  return Buffer.concat([...parts, end]);
}

function palette(hash: number): Buffer {
  const [red, green, blue] = [hash & 255, (hash >>> 8) & 255, (hash >>> 16) & 255];
  const colours = Buffer.alloc(COLOURS * 3);
  for (let i = 0; i < COLOURS; i++) {
    colours.set([(red + 8 * i) & 255, (green + 5 * i) & 255, (blue + 11 * i) & 255], 3 * i);
  }
  return colours;
}

const compressedPixels = new Map<string, Buffer>();

/** Bands of one colour each, from top to bottom: an image of a million pixels takes a few milliseconds. */
function compressPixels({ width, height }: PictureSize): Buffer {
  const key = `${width}x${height}`;
  const cached = compressedPixels.get(key);
  if (cached !== undefined) return cached;
  // Each row begins with its filter type, 0 for none.
  const rowBytes = 1 + Math.ceil((width * DEPTH_BITS) / 8);
  const rows = Buffer.alloc(rowBytes * height);
  for (let y = 0; y < height; y++) {
    const colour = Math.floor((COLOURS * y) / height);
    rows.fill(colour * 0x11, y * rowBytes + 1, (y + 1) * rowBytes);
  }
  const pixels = deflateSync(rows, { level: 1 });
  if (compressedPixels.size >= SHAPES_MAX) compressedPixels.clear();
  compressedPixels.set(key, pixels);
  return pixels;
}

function chunk(type: string, data: Buffer): Buffer {
  const typed = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const out = Buffer.alloc(typed.length + 8);
  out.writeUInt32BE(data.length, 0);
  out.set(typed, 4);
  out.writeUInt32BE(crc32(typed), typed.length + 4);
  return out;
}
