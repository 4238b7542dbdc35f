import { describe, expect, test } from "bun:test";
import { SocketSender } from "./socket-sender.ts";

/** A socket that accepts this number of bytes per write and records the writes. */
function slowSocket(perWrite: number) {
  const given: Uint8Array[] = [];
  const write = (bytes: Uint8Array, from = 0, length = bytes.length - from) => {
    given.push(bytes.subarray(from, from + length));
    return Math.min(perWrite, length);
  };
  return { given, write };
}

describe("bytes that a socket does not accept", () => {
  test("are copied, because their memory may be reused", () => {
    const socket = slowSocket(2);
    const sender = new SocketSender(socket);
    const bytes = Buffer.from("abcdef");
    expect(sender.write(bytes, 0, 6)).toBe(true);
    bytes.fill("x");
    expect([sender.bytes, sender.sharedBytes]).toEqual([4, 0]);
    sender.flush();
    expect(String(socket.given.at(-1))).toBe("cdef");
  });

  test("are not copied if they are shared, and are counted separately until they are sent", () => {
    const socket = slowSocket(2);
    const sender = new SocketSender(socket);
    const shared = Buffer.from("abcdef");
    sender.write(shared, 0, 6, true);
    sender.write(Buffer.from("gh"), 0, 2);
    expect([sender.bytes, sender.sharedBytes]).toEqual([6, 4]);
    expect(sender.flush()).toBe(false);
    expect(socket.given.at(-1)?.buffer).toBe(shared.buffer);
    expect([sender.bytes, sender.sharedBytes]).toEqual([4, 2]);
    expect(sender.flush()).toBe(true);
    expect([sender.bytes, sender.sharedBytes]).toEqual([0, 0]);
    expect(socket.given.map(String)).toEqual(["abcdef", "cdef", "ef", "gh"]);
  });

  test("are dropped when the connection is closed", () => {
    const sender = new SocketSender(slowSocket(1));
    sender.write(Buffer.from("abc"), 0, 3, true);
    sender.drop();
    expect([sender.bytes, sender.sharedBytes]).toEqual([0, 0]);
  });
});
