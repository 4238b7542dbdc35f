/** Encodes one frame of `application/vnd.amazon.eventstream`. */

import { crc32 } from "node:zlib";

/** Header names have at most 255 bytes, values at most 65,535. */
export function encodeEventFrame(
  headers: Readonly<Record<string, string>>,
  payload: Uint8Array | string,
): Buffer {
  const headerBytes = Buffer.concat(
    Object.entries(headers).map(([name, value]) => encodeHeader(name, value)),
  );
  const body = Buffer.from(payload);
  const frame = Buffer.alloc(16 + headerBytes.length + body.length);
  frame.writeUInt32BE(frame.length, 0);
  frame.writeUInt32BE(headerBytes.length, 4);
  frame.writeUInt32BE(crc32(frame.subarray(0, 8)), 8);
  headerBytes.copy(frame, 12);
  body.copy(frame, 12 + headerBytes.length);
  frame.writeUInt32BE(crc32(frame.subarray(0, -4)), frame.length - 4);
  return frame;
}

const STRING_TYPE = 7;

function encodeHeader(name: string, value: string): Buffer {
  const nameBytes = Buffer.from(name);
  const valueBytes = Buffer.from(value);
  const length = [valueBytes.length >> 8, valueBytes.length & 0xff];
  return Buffer.concat([
    Buffer.from([nameBytes.length]),
    nameBytes,
    Buffer.from([STRING_TYPE, ...length]),
    valueBytes,
  ]);
}
