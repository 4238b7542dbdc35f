import { describe, expect, test } from "bun:test";
import { CLOSE, PING, PONG, TEXT } from "../net/websocket/frames.ts";
import {
  closeOf,
  FAREWELL_LOOKS,
  frame,
  goodbye,
  SILENT_LOOKS,
  stage,
  text,
} from "./connection.test-support.ts";

describe("closing", () => {
  test("by the client is answered with its code, and ends the connection", () => {
    for (const [code, payload] of [
      [1000, "\x03\xe8"],
      [4999, "\x13\x87"],
      [null, ""],
    ] as const) {
      const { hear, sent, outlet, told } = stage();
      hear(text("a"), goodbye(code, code === null ? "" : "enough"), text("late"), goodbye(code));
      expect(sent()).toEqual([[CLOSE, payload]]);
      expect(told).toEqual(["text a", "closed"]);
      expect(outlet.isEnded).toBe(true);
    }
  });

  test("is told once, though the connection ends later", () => {
    const { socket, hear, told } = stage();
    hear(goodbye(1000));
    socket.closed();
    expect(told).toEqual(["closed"]);
  });

  test("by us waits for the client's word, and lets go of whatever else it says", () => {
    const { socket, hear, sent, outlet, told } = stage();
    socket.close(1012, "restarting");
    hear(text("late"), frame(TEXT, Uint8Array.of(0xff)));
    expect(outlet.isEnded).toBe(false);
    hear(goodbye(1012));
    expect(sent()).toEqual([closeOf(1012, "restarting")]);
    expect(outlet.isEnded).toBe(true);
    expect(told).toEqual(["closed"]);
  });

  test("by us within a message is heard behind what was said before", () => {
    const { hear, sent, told } = stage((socket) => {
      socket.sendText("no");
      socket.close(1008, "enough");
    });
    hear(text("a"), text("b"));
    expect(sent()).toEqual([[TEXT, "no"], closeOf(1008, "enough")]);
    expect(told).toEqual(["text a"]);
  });

  test("by us does not wait for ever for the client's word", () => {
    const { socket, outlet, look, hear } = stage();
    socket.close(1000, "");
    look(FAREWELL_LOOKS);
    hear(text("late"));
    expect(outlet.isTerminated).toBe(false);
    look(1);
    expect(outlet.isTerminated).toBe(true);
  });

  test("by the client does not wait for ever for its end of the connection", () => {
    const { outlet, look, hear } = stage();
    hear(goodbye(1000));
    look(FAREWELL_LOOKS);
    expect(outlet.isTerminated).toBe(false);
    look(1);
    expect(outlet.isTerminated).toBe(true);
  });

  test("by us after a broken frame of the client says nothing more", () => {
    const { socket, hear, sent, outlet, look } = stage();
    socket.close(1000, "");
    hear(Uint8Array.of(0xff, 0x80, 0, 0, 0, 0));
    look(1);
    expect(outlet.isEnded).toBe(true);
    expect(sent()).toEqual([closeOf(1000)]);
  });

  test("gives a client that has much to take first as long as it may be silent", () => {
    const { socket, outlet, look } = stage();
    outlet.isSlow = true;
    socket.sendText("slowly");
    socket.close(1000, "");
    look(SILENT_LOOKS);
    expect(outlet.isTerminated).toBe(false);
    look(1);
    expect(outlet.isTerminated).toBe(true);
  });

  test("at once drops what was not written, and is told when the connection is gone", () => {
    const { socket, outlet, told } = stage();
    socket.cork(() => {
      socket.sendText("unsaid");
      socket.terminate();
    });
    socket.terminate();
    expect(outlet.isTerminated).toBe(true);
    expect(outlet.writes).toEqual([]);
    socket.closed();
    expect(told).toEqual(["closed"]);
  });

  test("of the connection alone is told as well", () => {
    const { socket, hear, told } = stage();
    hear(text("a").subarray(0, 3));
    socket.closed();
    hear(text("a").subarray(3));
    expect(told).toEqual(["closed"]);
  });
});

describe("silence", () => {
  test("is broken by one ping, and then ends the connection", () => {
    const { sent, outlet, look, told } = stage();
    look(SILENT_LOOKS);
    expect(sent()).toEqual([[PING, ""]]);
    expect(outlet.isTerminated).toBe(false);
    look(1);
    expect(outlet.isTerminated).toBe(true);
    expect(told).toEqual([]);
  });

  test("is over with any byte that comes", () => {
    const { hear, outlet, look } = stage();
    const pong = frame(PONG, "");
    for (const byte of pong) {
      look(SILENT_LOOKS);
      hear(Uint8Array.of(byte));
    }
    look(SILENT_LOOKS);
    expect(outlet.isTerminated).toBe(false);
  });

  test("is none while the client takes what was sent", () => {
    const { socket, outlet, look } = stage();
    outlet.isSlow = true;
    socket.sendText("x".repeat(1_000));
    for (let left = 900; left > 0; left -= 100) {
      outlet.bufferedBytes = left;
      look(SILENT_LOOKS);
    }
    outlet.bufferedBytes = 0;
    socket.drained();
    look(SILENT_LOOKS);
    expect(outlet.isTerminated).toBe(false);
    look(1);
    expect(outlet.isTerminated).toBe(true);
  });
});
