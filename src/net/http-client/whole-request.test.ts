import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { freeBytes } from "../../base/bytes.ts";
import type { Part } from "../../base/parts.ts";
import { writeBatcher } from "../wire/write-batcher.ts";
import type { OutgoingHead } from "./request-head.ts";
import { isFreed, writeParts, writeRequest } from "./whole-request.ts";

const HEAD = "POST / HTTP/1.1\r\ncontent-length: 1\r\n\r\n";
const LONG = 70_000;

/** Accepts these numbers of bytes per write, the last number for all further writes. */
function outlet(takes: readonly number[]) {
  const writes: Buffer[] = [];
  /** How many writes there were before each `beginWrite`. */
  const begun: number[] = [];
  return {
    writes,
    begun,
    beginWrite: () => void begun.push(writes.length),
    write(bytes: Uint8Array, from: number, to: number): number {
      const length = Math.min(to - from, takes[Math.min(writes.length, takes.length - 1)] ?? 0);
      writes.push(Buffer.copyBytesFrom(bytes, from, length));
      return length;
    },
    /** Called by the write batcher; accepts everything. */
    send(bytes: Uint8Array, from: number, to: number): void {
      writes.push(Buffer.copyBytesFrom(bytes, from, to - from));
    },
  };
}

function pattern(length: number): Buffer {
  return Buffer.from(Uint8Array.from({ length }, (_, at) => (at * 31) % 251));
}

/** A head split in the middle, as if its start were cached. */
function buildHead(text: string): OutgoingHead {
  const at = text.length >> 1;
  return { start: Buffer.from(text.slice(0, at), "latin1"), end: text.slice(at) };
}

function joinText(head: string, body: readonly Part[]): Buffer {
  return Buffer.concat([Buffer.from(head, "latin1"), ...body.map((p) => p.bytes.subarray(p.start, p.end))]);
}

/** Writes until everything is accepted. */
function send(head: string, body: readonly Part[], takes: readonly number[]): Buffer[] {
  const out = outlet(takes);
  let left = writeRequest(out, out, buildHead(head), body) ?? [];
  writeBatcher.flush();
  while (left.length > 0) left = writeParts(out, left);
  return out.writes;
}

describe("a request in memory", () => {
  test("is sent unchanged for any parts and partial writes, and its body stays unchanged", () => {
    const memory = pattern(200_000);
    const before = Buffer.from(memory);
    const length = fc.oneof(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 60_000, max: 90_000 }));
    const part = fc
      .tuple(fc.nat(5_000), fc.nat(5_000), length)
      .map(([offset, start, bytes]): Part => ({ bytes: memory.subarray(offset), start, end: start + bytes }));
    const takes = fc.array(fc.oneof(fc.nat(200), fc.nat(100_000)), { maxLength: 8 });
    const head = fc.oneof(
      fc.constant(HEAD),
      fc.integer({ min: 0, max: 80_000 }).map((n) => "h".repeat(n)),
    );
    fc.assert(
      fc.property(head, fc.array(part, { maxLength: 4 }), takes, (text, body, taken) => {
        const writes = send(text, body, [...taken, 1_000_000]);
        expect(Buffer.concat(writes).equals(joinText(text, body))).toBe(true);
        expect(memory.equals(before)).toBe(true);
      }),
      { numRuns: 300 },
    );
  });

  test("is one write if it is short", () => {
    const body = [{ bytes: pattern(1_000), start: 10, end: 900 }];
    expect(send(HEAD, body, [1_000_000])).toEqual([joinText(HEAD, body)]);
  });

  test("is two writes if its body is long: the short parts together, then the long one", () => {
    const name = { bytes: Buffer.from('"other"'), start: 0, end: 7 };
    const bytes = pattern(LONG);
    const body = [{ bytes, start: 0, end: 9 }, name, { bytes, start: 16, end: bytes.length }];
    const writes = send(HEAD, body, [1_000_000]);
    expect(writes).toHaveLength(2);
    expect(Buffer.concat(writes).equals(joinText(HEAD, body))).toBe(true);
  });

  test("is detected as freed when its memory was released", () => {
    const bytes = Buffer.allocUnsafeSlow(LONG);
    const out = outlet([100]);
    const left = writeRequest(out, out, buildHead(HEAD), [{ bytes, start: 0, end: LONG }]) ?? [];
    expect(out.begun).toEqual([0]);
    expect(left.some(isFreed)).toBe(false);
    freeBytes(bytes);
    expect(left.some(isFreed)).toBe(true);
  });

  test.each([
    ["short", 10],
    ["too long for the write batcher", 20_000],
    ["long", LONG],
  ])("of a %s body begins once, before its first write", (_, length) => {
    const out = outlet([1_000_000]);
    const left = writeRequest(out, out, buildHead(HEAD), [{ bytes: pattern(length), start: 0, end: length }]);
    // The write batcher sends with `send`, which begins the write itself.
    expect(out.begun).toEqual(left === null ? [] : [0]);
    writeBatcher.flush();
  });
});
