import { describe, expect, spyOn, test } from "bun:test";
import fc from "fast-check";
import { wholePart } from "../../base/parts.ts";
import { BINARY, buildFrame, CLOSE, closeFrame, FrameReader, PING, PONG, readClose, TEXT } from "./frames.ts";

const MiB = 1024 * 1024;

/** All results in order; a message as its opcode and text. */
function readAll(
  pieces: readonly Uint8Array[],
  { isMasked = false, messageBytesMax = MiB }: { isMasked?: boolean; messageBytesMax?: number } = {},
) {
  const reader = new FrameReader({ isMasked, messageBytesMax });
  const out: [opcode: number, payload: string][] = [];
  for (const piece of pieces) {
    // A copy, because masked bytes are unmasked in place.
    const fault = reader.push(Uint8Array.from(piece), {
      onMessage: (opcode, bytes, start, end) => out.push([opcode, latin1(bytes.subarray(start, end))]),
      onControl: (opcode, payload) => out.push([opcode, latin1(payload)]),
    });
    if (fault !== null) return { out, fault };
  }
  return { out, fault: null };
}

function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("latin1");
}

function byteByByte(bytes: Uint8Array): Uint8Array[] {
  return Array.from(bytes, (byte) => Uint8Array.of(byte));
}

const bytes = (text: string) => Buffer.from(text, "latin1");
const message = (text: string, mask: Uint8Array | null = null) =>
  buildFrame(TEXT, wholePart(bytes(text)), mask);
/** A frame that is only a part of its message: `buildFrame` makes only whole messages. */
function part(opcode: number, text: string, isFinal: boolean): Uint8Array {
  const frame = Uint8Array.from(buildFrame(opcode, wholePart(bytes(text)), null));
  frame[0] = (isFinal ? 0x80 : 0) | opcode;
  return frame;
}

describe("WebSocket messages", () => {
  const anyMask = fc.option(fc.uint8Array({ minLength: 4, maxLength: 4 }), { nil: null });
  const anyFrame = fc.record({
    opcode: fc.constantFrom(TEXT, BINARY, PING, PONG),
    payload: fc.oneof(fc.uint8Array({ maxLength: 125 }), fc.uint8Array({ minLength: 120, maxLength: 400 })),
  });

  test("any frames are decoded as written, for any split, masked or not", () => {
    fc.assert(
      fc.property(
        fc.array(anyFrame, { minLength: 1, maxLength: 8 }),
        anyMask,
        fc.array(fc.nat(200), { minLength: 1, maxLength: 20 }),
        (frames, mask, cuts) => {
          const sent = frames.map(({ opcode, payload }) => ({
            opcode,
            payload: opcode >= CLOSE ? payload.subarray(0, 125) : payload,
          }));
          const wire = Buffer.concat(
            sent.map(({ opcode, payload }) => buildFrame(opcode, wholePart(payload), mask)),
          );
          const pieces: Uint8Array[] = [];
          for (let at = 0, i = 0; at < wire.length; i++) {
            const to = Math.min(wire.length, at + (cuts[i % cuts.length] ?? 0) + 1);
            pieces.push(wire.subarray(at, to));
            at = to;
          }
          const expected = sent.map(({ opcode, payload }): [number, string] => [opcode, latin1(payload)]);
          expect(readAll(pieces, { isMasked: mask !== null })).toEqual({ out: expected, fault: null });
        },
      ),
      { numRuns: 300 },
    );
  });

  for (const length of [0, 1, 125, 126, 127, 65_535, 65_536, 70_001]) {
    test(`${length} bytes arrive completely, in one chunk or byte by byte, masked or not`, () => {
      const text = "x".repeat(length);
      for (const mask of [null, Uint8Array.of(0xa1, 0x02, 0xfe, 0x77)]) {
        const frame = message(text, mask);
        const isMasked = mask !== null;
        expect(readAll([frame], { isMasked }).out).toEqual([[TEXT, text]]);
        expect(readAll(byteByByte(frame), { isMasked }).out).toEqual([[TEXT, text]]);
      }
    });
  }

  test("the length is encoded in the shortest form", () => {
    expect(message("x".repeat(125)).length).toBe(2 + 125);
    expect(message("x".repeat(126)).length).toBe(4 + 126);
    expect(message("x".repeat(65_535)).length).toBe(4 + 65_535);
    expect(message("x".repeat(65_536)).length).toBe(10 + 65_536);
  });

  test("a mask is written before the payload and applied to every byte", () => {
    const frame = message("aaaaa", Uint8Array.of(1, 2, 0, 4));
    expect([...frame]).toEqual([0x81, 0x85, 1, 2, 0, 4, 0x60, 0x63, 0x61, 0x65, 0x60]);
  });

  test("a mask is removed at any memory alignment", () => {
    const text = Array.from({ length: 300 }, (_, i) => String.fromCharCode(i & 0xff)).join("");
    for (let offset = 0; offset < 4; offset++) {
      for (let cut = 0; cut < 8; cut++) {
        const frame = message(text, Uint8Array.of(0xa1, 0x02, 0xfe, 0x77));
        const memory = Buffer.concat([new Uint8Array(offset), frame]);
        const reader = new FrameReader({ isMasked: true, messageBytesMax: MiB });
        const seen: string[] = [];
        const handler = {
          onMessage: (_: number, from: Uint8Array, start: number, end: number) =>
            void seen.push(latin1(from.subarray(start, end))),
          onControl() {},
        };
        reader.push(memory.subarray(offset, offset + 8 + cut), handler);
        reader.push(memory.subarray(offset + 8 + cut), handler);
        expect(seen).toEqual([text]);
      }
    }
  });

  test("a message in pieces allocates exactly its size, and only when it is complete", () => {
    const frame = message("x".repeat(MiB));
    const reader = new FrameReader({ isMasked: false, messageBytesMax: MiB });
    const seen: Uint8Array[] = [];
    const handler = { onMessage: (_: number, from: Uint8Array) => void seen.push(from), onControl() {} };
    for (let at = 0; at < frame.length; at += 10_000) reader.push(frame.subarray(at, at + 10_000), handler);
    expect(seen.map(({ buffer }) => buffer.byteLength)).toEqual([MiB]);
  });

  test("a long message is copied once at most after its first MiB, in one frame or in fragments", () => {
    const frames = Array.from({ length: 48 }, (_, i) =>
      part(i === 0 ? TEXT : 0, String(i % 10).repeat(MiB / 4), i === 47),
    );
    for (const wire of [Buffer.concat(frames), message("x".repeat(12 * MiB))]) {
      const reader = new FrameReader({ isMasked: false, messageBytesMax: 16 * MiB });
      const seen: Uint8Array[] = [];
      const handler = { onMessage: (_: number, from: Uint8Array) => void seen.push(from), onControl() {} };
      const allocate = spyOn(Buffer, "allocUnsafeSlow");
      for (let at = 0; at < wire.length; at += 64 * 1024)
        reader.push(wire.subarray(at, at + 64 * 1024), handler);
      const long = allocate.mock.calls.filter(([bytes]) => bytes > 8 * MiB);
      allocate.mockRestore();
      expect(seen.map(({ length }) => length)).toEqual([12 * MiB]);
      expect(long).toHaveLength(1);
    }
  });

  test("a reader is at rest only between messages", () => {
    const reader = new FrameReader({ isMasked: false, messageBytesMax: MiB });
    const wire = Buffer.concat([part(TEXT, "ab", false), buildFrame(PING, [], null), part(0, "c", true)]);
    const rests = byteByByte(Buffer.concat([message("a"), wire])).map((byte) => {
      reader.push(byte, { onMessage() {}, onControl() {} });
      return reader.isIdle;
    });
    expect(rests.flatMap((isAtRest, i) => (isAtRest ? [i + 1] : []))).toEqual([3, 3 + wire.length]);
  });

  test("a message that arrives completely is not copied", () => {
    const wire = Buffer.concat([message("one"), message("two")]);
    const reader = new FrameReader({ isMasked: false, messageBytesMax: MiB });
    const seen: Uint8Array[] = [];
    reader.push(wire, { onMessage: (_, from) => seen.push(from), onControl() {} });
    expect(seen).toEqual([wire, wire]);
    expect(seen[0]).toBe(wire);
  });

  test("a fragmented message is joined, and control frames within it are delivered at once", () => {
    const wire = [
      part(TEXT, "be", false),
      buildFrame(PING, wholePart(bytes("?")), null),
      part(0, "", false),
      part(0, "gun", true),
      part(BINARY, "b", false),
      part(0, "c", true),
    ];
    const expected: [number, string][] = [
      [PING, "?"],
      [TEXT, "begun"],
      [BINARY, "bc"],
    ];
    expect(readAll(wire).out).toEqual(expected);
    expect(readAll([Buffer.concat(wire)]).out).toEqual(expected);
    expect(readAll(byteByByte(Buffer.concat(wire))).out).toEqual(expected);
  });

  test("the size limit applies to the whole message, not to its fragments", () => {
    const halves = [part(TEXT, "12345", false), part(0, "6789", true)];
    expect(readAll(halves, { messageBytesMax: 9 }).out).toEqual([[TEXT, "123456789"]]);
    expect(readAll(halves, { messageBytesMax: 8 }).fault?.code).toBe(1009);
  });
});

describe("invalid WebSocket frames", () => {
  const cases: [what: string, wire: readonly number[], reason: string][] = [
    ["a reserved bit", [0xc1, 0], "reserved bit"],
    ["the other reserved bits", [0xb1, 0], "reserved bit"],
    ["an unknown data opcode", [0x83, 0], "unknown opcode"],
    ["an unknown control opcode", [0x8b, 0], "unknown opcode"],
    ["a mask from a server", [0x81, 0x80, 1, 2, 3, 4], "masked"],
    ["a control frame is fragmented", [0x09, 0], "fragmented"],
    ["a control frame of 126 bytes", [0x89, 126, 0, 126], "too long"],
    ["a continuation without a message", [0x80, 0], "without a message"],
    ["a message within another", [0x01, 0, 0x81, 0], "before the end of the previous one"],
    ["125 bytes with a two-byte length", [0x81, 126, 0, 125], "shortest form"],
    ["65535 bytes with an eight-byte length", [0x81, 127, 0, 0, 0, 0, 0, 0, 0xff, 0xff], "shortest form"],
  ];
  for (const [what, wire, reason] of cases) {
    test(`${what} is a protocol error, detected at once`, () => {
      for (const pieces of [[Uint8Array.from(wire)], byteByByte(Uint8Array.from(wire))]) {
        const { out, fault } = readAll(pieces);
        expect(out).toEqual([]);
        expect(fault?.code).toBe(1002);
        expect(fault?.reason).toContain(reason);
      }
    });
  }

  test("a frame without a mask is an error for a server", () => {
    expect(readAll([message("a")], { isMasked: true }).fault?.code).toBe(1002);
  });

  test("a message that is announced too large is rejected before its payload", () => {
    expect(readAll([[0x81, 127, 0, 0, 0, 1, 0, 0, 0, 0]].map((head) => Uint8Array.from(head))).fault).toEqual(
      {
        code: 1009,
        reason: `a message exceeds ${MiB} bytes`,
      },
    );
    expect(
      readAll([[0x81, 127, ...Array(8).fill(0xff)]].map((head) => Uint8Array.from(head))).fault?.code,
    ).toBe(1009);
  });

  test("never make the reader throw", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), fc.boolean(), (wire, isMasked) => {
        const together = readAll([wire], { isMasked, messageBytesMax: 200 });
        const apart = readAll(byteByByte(wire), { isMasked, messageBytesMax: 200 });
        expect(apart).toEqual(together);
      }),
      { numRuns: 500 },
    );
  });
});

describe("close frames", () => {
  test("contain a code and a reason, which is truncated between characters", () => {
    const { out } = readAll([closeFrame(1001, `${"ä".repeat(100)}`, null)]);
    const notice = readClose(bytes(out[0]?.[1] ?? ""));
    expect(notice).toEqual({ code: 1001, reason: "ä".repeat(61) });
    expect(readClose(bytes(readAll([closeFrame(null, "", null)]).out[0]?.[1] ?? "no"))).toEqual({
      code: null,
      reason: "",
    });
  });

  test("with a reserved code, half a code or invalid UTF-8 are rejected", () => {
    const payload = (code: number, rest: number[] = []) => Uint8Array.of(code >> 8, code & 0xff, ...rest);
    for (const code of [0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65_535]) {
      expect(readClose(payload(code))).toBeNull();
    }
    for (const code of [1000, 1001, 1003, 1007, 1011, 1014, 3000, 4999]) {
      expect(readClose(payload(code))?.code).toBe(code);
    }
    expect(readClose(Uint8Array.of(3))).toBeNull();
    expect(readClose(payload(1000, [0xc3]))).toBeNull();
    expect(readClose(payload(1000, [0xc3, 0xa4]))?.reason).toBe("ä");
  });
});
