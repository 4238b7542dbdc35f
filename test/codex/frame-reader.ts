/** The text messages in the bytes of one direction of a WebSocket; control frames are passed over. */

const OPCODE_TEXT = 0x1;
const MASKED = 0x80;

export function openFrameReader(onMessage: (text: string) => void): (bytes: Buffer) => void {
  let held: Buffer = Buffer.alloc(0);
  return (bytes) => {
    held = held.length === 0 ? bytes : Buffer.concat([held, bytes]);
    for (let frame = takeFrame(held); frame !== null; frame = takeFrame(held)) {
      held = frame.rest;
      if (frame.opcode === OPCODE_TEXT) onMessage(frame.payload.toString("utf8"));
    }
  };
}

interface Frame {
  opcode: number;
  payload: Buffer;
  rest: Buffer;
}

function takeFrame(bytes: Buffer): Frame | null {
  const [first, second] = bytes;
  if (first === undefined || second === undefined) return null;
  const short = second & 0x7f;
  const lengthBytes = short === 126 ? 2 : short === 127 ? 8 : 0;
  const isMasked = (second & MASKED) !== 0;
  const start = 2 + lengthBytes + (isMasked ? 4 : 0);
  if (bytes.length < start) return null;
  const length =
    lengthBytes === 0 ? short : lengthBytes === 2 ? bytes.readUInt16BE(2) : Number(bytes.readBigUInt64BE(2));
  if (bytes.length < start + length) return null;
  const payload = Buffer.from(bytes.subarray(start, start + length));
  if (isMasked) {
    const mask = bytes.subarray(start - 4, start);
    for (let i = 0; i < payload.length; i++) payload[i] = (payload[i] ?? 0) ^ (mask[i % 4] ?? 0);
  }
  return { opcode: first & 0x0f, payload, rest: bytes.subarray(start + length) };
}
