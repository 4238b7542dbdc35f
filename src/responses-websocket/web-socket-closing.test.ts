import { describe, expect, test } from "bun:test";
import { CLOSE, PING, PONG, TEXT } from "../net/websocket/frames.ts";
import {
  CLOSE_CHECKS,
  clientClose,
  frame,
  openHarness,
  SILENT_CHECKS,
  serverClose,
  text,
} from "./connection.test-support.ts";

describe("closing a WebSocket", () => {
  test("by the client is answered with its code and ends the connection", () => {
    for (const [code, payload] of [
      [1000, "\x03\xe8"],
      [4999, "\x13\x87"],
      [null, ""],
    ] as const) {
      const { receive, sent, writer, callbacks } = openHarness();
      receive(text("a"), clientClose(code, code === null ? "" : "enough"), text("late"), clientClose(code));
      expect(sent()).toEqual([[CLOSE, payload]]);
      expect(callbacks).toEqual(["text a", "closed"]);
      expect(writer.isEnded).toBe(true);
    }
  });

  test("is reported once, even if the connection ends later", () => {
    const { socket, receive, callbacks } = openHarness();
    receive(clientClose(1000));
    socket.onClose();
    expect(callbacks).toEqual(["closed"]);
  });

  test("by the server waits for the client's close and drops other messages", () => {
    const { socket, receive, sent, writer, callbacks } = openHarness();
    socket.close(1012, "restarting");
    receive(text("late"), frame(TEXT, Uint8Array.of(0xff)));
    expect(writer.isEnded).toBe(false);
    receive(clientClose(1012));
    expect(sent()).toEqual([serverClose(1012, "restarting")]);
    expect(writer.isEnded).toBe(true);
    expect(callbacks).toEqual(["closed"]);
  });

  test("by the server within a message follows the data sent before", () => {
    const { receive, sent, callbacks } = openHarness((socket) => {
      socket.sendText("no");
      socket.close(1008, "enough");
    });
    receive(text("a"), text("b"));
    expect(sent()).toEqual([[TEXT, "no"], serverClose(1008, "enough")]);
    expect(callbacks).toEqual(["text a"]);
  });

  test("by the server waits for the client's close for a limited time", () => {
    const { socket, writer, check: look, receive } = openHarness();
    socket.close(1000, "");
    look(CLOSE_CHECKS);
    receive(text("late"));
    expect(writer.isTerminated).toBe(false);
    look(1);
    expect(writer.isTerminated).toBe(true);
  });

  test("by the client waits for the end of the connection for a limited time", () => {
    const { writer, check: look, receive } = openHarness();
    receive(clientClose(1000));
    look(CLOSE_CHECKS);
    expect(writer.isTerminated).toBe(false);
    look(1);
    expect(writer.isTerminated).toBe(true);
  });

  test("by the server after an invalid frame of the client sends nothing more", () => {
    const { socket, receive, sent, writer, check: look } = openHarness();
    socket.close(1000, "");
    receive(Uint8Array.of(0xff, 0x80, 0, 0, 0, 0));
    look(1);
    expect(writer.isEnded).toBe(true);
    expect(sent()).toEqual([serverClose(1000)]);
  });

  test("waits for a client with unread data as long as the idle timeout", () => {
    const { socket, writer, check: look } = openHarness();
    writer.isSlow = true;
    socket.sendText("slowly");
    socket.close(1000, "");
    look(SILENT_CHECKS);
    expect(writer.isTerminated).toBe(false);
    look(1);
    expect(writer.isTerminated).toBe(true);
  });

  test("with terminate drops unwritten data, and is reported when the connection has ended", () => {
    const { socket, writer, callbacks } = openHarness();
    socket.cork(() => {
      socket.sendText("unsaid");
      socket.terminate();
    });
    socket.terminate();
    expect(writer.isTerminated).toBe(true);
    expect(writer.writes).toEqual([]);
    socket.onClose();
    expect(callbacks).toEqual(["closed"]);
  });

  test("of the connection alone is reported as well", () => {
    const { socket, receive, callbacks } = openHarness();
    receive(text("a").subarray(0, 3));
    socket.onClose();
    receive(text("a").subarray(3));
    expect(callbacks).toEqual(["closed"]);
  });
});

describe("an idle WebSocket", () => {
  test("gets one ping, and is then terminated", () => {
    const { sent, writer, check: look, callbacks } = openHarness();
    look(SILENT_CHECKS);
    expect(sent()).toEqual([[PING, ""]]);
    expect(writer.isTerminated).toBe(false);
    look(1);
    expect(writer.isTerminated).toBe(true);
    expect(callbacks).toEqual([]);
  });

  test("is active again with any byte received", () => {
    const { receive, writer, check: look } = openHarness();
    const pong = frame(PONG, "");
    for (const byte of pong) {
      look(SILENT_CHECKS);
      receive(Uint8Array.of(byte));
    }
    look(SILENT_CHECKS);
    expect(writer.isTerminated).toBe(false);
  });

  test("is not idle while the client reads what was sent", () => {
    const { socket, writer, check: look } = openHarness();
    writer.isSlow = true;
    socket.sendText("x".repeat(1_000));
    for (let left = 900; left > 0; left -= 100) {
      writer.bufferedBytes = left;
      look(SILENT_CHECKS);
    }
    writer.bufferedBytes = 0;
    socket.onDrain();
    look(SILENT_CHECKS);
    expect(writer.isTerminated).toBe(false);
    look(1);
    expect(writer.isTerminated).toBe(true);
  });
});
