import { crc32, deflateSync } from "node:zlib";

const SIDE = 64;
const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
/** Ancillary, private, safe to copy: viewers skip it. */
const PADDING_CHUNK = "siMp";
const CHUNK_OVERHEAD_BYTES = 12;

/** A gradient whose colours come from the hash; padded to `bytes` when that is larger than the picture. */
export function gradientPng(hash: number, bytes: number | null): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(SIDE, 0);
  header.writeUInt32BE(SIDE, 4);
  header.set([8, 2, 0, 0, 0], 8);

  const rows = Buffer.alloc(SIDE * (1 + SIDE * 3));
  const [red, green, blue] = [hash & 255, (hash >>> 8) & 255, (hash >>> 16) & 255];
  for (let y = 0; y < SIDE; y++) {
    let at = y * (1 + SIDE * 3) + 1;
    for (let x = 0; x < SIDE; x++) {
      rows[at++] = (red + 2 * x) & 255;
      rows[at++] = (green + 2 * y) & 255;
      rows[at++] = (blue + x + y) & 255;
    }
  }
  const parts = [SIGNATURE, chunk("IHDR", header), chunk("IDAT", deflateSync(rows))];
  const end = chunk("IEND", Buffer.alloc(0));
  const size = parts.reduce((sum, part) => sum + part.length, end.length);
  const padding = (bytes ?? 0) - size - CHUNK_OVERHEAD_BYTES;
  if (padding >= 0) parts.push(chunk(PADDING_CHUNK, Buffer.alloc(padding, 0x2e)));
  return Buffer.concat([...parts, end]);
}

function chunk(type: string, data: Buffer): Buffer {
  const typed = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const out = Buffer.alloc(typed.length + 8);
  out.writeUInt32BE(data.length, 0);
  out.set(typed, 4);
  out.writeUInt32BE(crc32(typed), typed.length + 4);
  return out;
}
