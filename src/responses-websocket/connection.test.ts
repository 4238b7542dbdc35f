import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { wholePart } from "../base/parts.ts";
import { RecordingSocketWriter } from "../net/http-server/socket-writer.test-support.ts";
import { BINARY, buildFrame, CLOSE, PING, PONG, TEXT } from "../net/websocket/frames.ts";
import {
  budgetFor,
  clientClose,
  frame,
  MESSAGE_BYTES_MAX,
  type Owner,
  openHarness,
  part,
  SILENCE_MS,
  serverClose,
  text,
} from "./connection.test-support.ts";
import { openWebSockets } from "./connection.ts";

describe("WebSocket messages", () => {
  test("arrive completely, text and binary, for any split", () => {
    const wire = Buffer.concat([
      part(TEXT, "häl", false),
      frame(PING, "?"),
      part(0, "𝄞lo", true),
      frame(BINARY, "\x00\x01"),
      text("x".repeat(300)),
      text(""),
    ]);
    const expected = ["text häl𝄞lo", "binary \x00\x01", `text ${"x".repeat(300)}`, "text "];
    for (let cut = 0; cut <= wire.length; cut++) {
      const { callbacks, receive, sent } = openHarness();
      receive(wire.subarray(0, cut));
      receive(wire.subarray(cut));
      expect(callbacks).toEqual(expected);
      expect(sent()).toEqual([[PONG, "?"]]);
    }
  });

  test("arrive completely in any fragments and pieces, with control frames between them", () => {
    const anyMessage = fc.record({
      words: fc.string({ unit: "grapheme", maxLength: 300 }),
      cuts: fc.array(fc.nat(1_000), { maxLength: 5 }),
      pings: fc.boolean(),
    });
    fc.assert(
      fc.property(
        fc.array(anyMessage, { minLength: 1, maxLength: 5 }),
        fc.array(fc.nat(400), { minLength: 1, maxLength: 10 }),
        (messages, pieces) => {
          const wire = Buffer.concat(
            messages.flatMap(({ words, cuts, pings }) => {
              const bytes = Buffer.from(words);
              const ends = [...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].sort(
                (a, b) => a - b,
              );
              return ends.flatMap((end, i) => [
                part(i === 0 ? TEXT : 0, bytes.subarray(ends[i - 1] ?? 0, end), i === ends.length - 1),
                ...(pings ? [frame(PING, "p")] : []),
              ]);
            }),
          );
          const { callbacks, receive } = openHarness();
          for (let at = 0, i = 0; at < wire.length; i++) {
            const to = at + 1 + (pieces[i % pieces.length] ?? 0);
            receive(wire.subarray(at, to));
            at = to;
          }
          expect(callbacks).toEqual(messages.map(({ words }) => `text ${words}`));
        },
      ),
      { numRuns: 300 },
    );
  });

  test("of two interleaved connections are not mixed up", () => {
    const received: string[] = [];
    const all = openWebSockets<Owner>({
      incompleteBytes: budgetFor(1_000),
      messageBytesMax: MESSAGE_BYTES_MAX,
      silenceMaxMs: SILENCE_MS,
      onMessage: ({ name }, _, bytes) => void received.push(`${name} ${Buffer.from(bytes)}`),
      onDrain() {},
      onClose() {},
    });
    all.stop();
    const sockets = ["a", "b"].map((name) => all.open(new RecordingSocketWriter(), { name }, name));
    const wires = [text("one"), Buffer.concat([text("two"), text("more")])];
    for (let at = 0; at < 40; at++) {
      sockets.forEach((socket, i) => void socket.onData(Buffer.from(wires[i]?.subarray(at, at + 1) ?? [])));
    }
    expect(received).toEqual(["a one", "b two", "b more"]);
  });

  test("that are short do not keep the long read buffer alive", () => {
    const kept: Uint8Array[] = [];
    const all = openWebSockets<Owner>({
      incompleteBytes: budgetFor(1_000),
      messageBytesMax: MESSAGE_BYTES_MAX,
      silenceMaxMs: SILENCE_MS,
      onMessage: (_, _kind, bytes) => void kept.push(bytes),
      onDrain() {},
      onClose() {},
    });
    all.stop();
    all
      .open(new RecordingSocketWriter(), { name: "a" }, "a")
      .onData(Buffer.concat([text("short"), text("x".repeat(90_000)), text("short")]));
    expect(kept.map(({ buffer }) => buffer.byteLength > 90_000)).toEqual([false, true, false]);
  });

  test("of invalid UTF-8 close with 1007, also across fragments", () => {
    for (const wire of [
      [frame(TEXT, Uint8Array.of(0x61, 0xff))],
      [part(TEXT, Uint8Array.of(0xc3), false), part(0, "a", true)],
      [frame(TEXT, Uint8Array.of(0xed, 0xa0, 0x80))],
    ]) {
      const { callbacks, receive, sent, writer } = openHarness();
      receive(...wire, text("late"));
      expect(callbacks).toEqual(["closed"]);
      expect(sent()).toEqual([serverClose(1007, "a text message is not valid UTF-8")]);
      expect(writer.isEnded).toBe(false);
      receive(clientClose(1007));
      expect(writer.isEnded).toBe(true);
    }
  });

  test("may be split within a character", () => {
    const { callbacks, receive } = openHarness();
    receive(part(TEXT, Uint8Array.of(0xc3), false), part(0, Uint8Array.of(0xa4), true));
    expect(callbacks).toEqual(["text ä"]);
  });

  test("that are too long close with 1009 as soon as they are announced", () => {
    for (const wire of [
      [text("x".repeat(MESSAGE_BYTES_MAX + 1)).subarray(0, 14)],
      [part(TEXT, "x".repeat(MESSAGE_BYTES_MAX), false), part(0, "x", true)],
    ]) {
      const { callbacks, receive, sent, writer, check: look } = openHarness();
      receive(...wire);
      receive(text("late"), clientClose(1000));
      expect(callbacks).toEqual(["closed"]);
      expect(sent()).toEqual([serverClose(1009, `a message exceeds ${MESSAGE_BYTES_MAX} bytes`)]);
      // The client may still be sending: closing now would reset the connection before the client has read the reason.
      expect(writer.isEnded).toBe(false);
      look(1);
      expect(writer.isEnded).toBe(true);
    }
  });
});

describe("protocol errors of a client", () => {
  const cases: [what: string, wire: Uint8Array, reason: string][] = [
    ["a frame without a mask", buildFrame(TEXT, wholePart(Buffer.from("a")), null), "a frame is not masked"],
    ["a reserved bit", Uint8Array.of(0xc1, 0x80, 0, 0, 0, 0), "a reserved bit is set"],
    ["an unknown opcode", Uint8Array.of(0x83, 0x80, 0, 0, 0, 0), "an unknown opcode"],
    ["a fragmented ping", part(PING, "a", false), "a control frame is fragmented"],
    ["a long ping", frame(PING, "x".repeat(126)), "a control frame is too long"],
    ["a continuation without a message", part(0, "a", true), "a continuation frame without a message"],
  ];
  for (const [what, wire, reason] of cases) {
    test(`${what} closes with 1002 and a reason`, () => {
      const { callbacks, receive, sent, writer, check: look } = openHarness();
      receive(wire);
      receive(text("late"));
      expect(callbacks).toEqual(["closed"]);
      expect(sent()).toEqual([serverClose(1002, reason)]);
      look(1);
      expect(writer.isEnded).toBe(true);
    });
  }

  for (const payload of [[3], [0x03, 0xed], [0x03, 0xee], [0, 0], [0x13, 0x88], [0x03, 0xe8, 0xff]]) {
    test(`a close of ${JSON.stringify(payload)} is answered with 1002`, () => {
      const { callbacks, receive, sent, writer } = openHarness();
      receive(frame(CLOSE, Uint8Array.from(payload)));
      expect(callbacks).toEqual(["closed"]);
      expect(sent()).toEqual([serverClose(1002, "a close frame with an invalid code or reason")]);
      expect(writer.isEnded).toBe(true);
    });
  }
});

test("arbitrary bytes never throw, and cause at most one close", () => {
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ maxLength: 60 }), { maxLength: 5 }),
      fc.boolean(),
      (pieces, begins) => {
        const { receive, sent, callbacks } = openHarness((socket) => socket.sendText("received"));
        if (begins) receive(part(TEXT, "a", false));
        for (const piece of pieces) receive(piece);
        expect(sent().filter(([opcode]) => opcode === CLOSE).length).toBeLessThanOrEqual(1);
        expect(callbacks.indexOf("closed")).toBe(callbacks.includes("closed") ? callbacks.length - 1 : -1);
      },
    ),
    { numRuns: 500 },
  );
});

describe("sent messages", () => {
  test("are one write per frame", () => {
    const { socket, writer, sent } = openHarness();
    socket.sendText("häl𝄞lo");
    socket.sendUtf8('{"a":', Buffer.from("--1}--"), 2, 4);
    expect(sent().map(([opcode, payload]) => [opcode, Buffer.from(payload, "latin1").toString()])).toEqual([
      [TEXT, "häl𝄞lo"],
      [TEXT, '{"a":1}'],
    ]);
    expect(writer.writes).toHaveLength(2);
  });

  test("are one write per cork, also when sending throws", () => {
    const { socket, writer, sent } = openHarness();
    expect(() =>
      socket.cork(() => {
        socket.sendText("one");
        socket.sendText("two");
        expect(socket.bufferedBytes).toBe(10);
        throw new Error("failed");
      }),
    ).toThrow("failed");
    expect(writer.writes).toHaveLength(1);
    socket.sendText("three");
    expect(sent().map(([, payload]) => payload)).toEqual(["one", "two", "three"]);
    expect(writer.writes).toHaveLength(2);
  });

  test("are one write for all responses to one read", () => {
    const { receive, writer, sent } = openHarness((socket) => socket.sendText("answer"));
    receive(text("a"), frame(PING, "1"), text("b"), frame(PING, "2"));
    expect(sent()).toEqual([
      [TEXT, "answer"],
      [PONG, "1"],
      [TEXT, "answer"],
      [PONG, "2"],
    ]);
    expect(writer.writes).toHaveLength(1);
  });

  test("count as buffered until the client reads them", () => {
    const { socket, writer, callbacks } = openHarness();
    writer.isSlow = true;
    socket.sendText("12345");
    expect(socket.bufferedBytes).toBe(7);
    writer.bufferedBytes = 0;
    socket.onDrain();
    expect(callbacks).toEqual(["drained"]);
  });

  test("are dropped after a close and after the end", () => {
    const { socket, writer } = openHarness();
    socket.close(1000, "");
    socket.sendText("late");
    socket.sendUtf8("", Buffer.from("late"), 0, 4);
    socket.close(1001, "");
    socket.onClose();
    socket.close(1001, "");
    expect(writer.writes).toHaveLength(1);
  });
});

describe("pings", () => {
  test("are answered with their payload", () => {
    const { receive, sent } = openHarness();
    receive(frame(PING, ""), frame(PING, "x".repeat(125)));
    expect(sent()).toEqual([
      [PONG, ""],
      [PONG, "x".repeat(125)],
    ]);
  });

  test("of a client that does not read are answered once, for the last one", () => {
    const { socket, receive, sent, writer, callbacks } = openHarness();
    writer.isSlow = true;
    socket.sendText("slowly");
    for (let i = 0; i < 100; i++) receive(frame(PING, String(i)));
    expect(writer.writes).toHaveLength(1);
    writer.isSlow = false;
    writer.bufferedBytes = 0;
    socket.onDrain();
    socket.onDrain();
    expect(sent()).toEqual([
      [TEXT, "slowly"],
      [PONG, "99"],
    ]);
    expect(callbacks).toEqual(["drained", "drained"]);
  });

  test("are not answered after a close", () => {
    const { socket, receive, sent } = openHarness();
    socket.close(1000, "");
    receive(frame(PING, "?"));
    expect(sent()).toEqual([serverClose(1000)]);
  });

  test("unsolicited pongs are ignored", () => {
    const { receive, sent, callbacks } = openHarness();
    receive(frame(PONG, "?"), text("a"));
    expect(sent()).toEqual([]);
    expect(callbacks).toEqual(["text a"]);
  });
});

describe("incomplete messages", () => {
  const half = (bytes: number) => part(TEXT, "x".repeat(bytes), false);
  const closed = (callbacks: readonly string[]) => callbacks.includes("closed");

  test.each([
    ["of all keys", budgetFor(100), ["a", "b"]],
    ["of one key", budgetFor(1_000, 100), ["a", "a"]],
  ] as const)(
    "%s are limited, and a connection above the limit is closed with 1013",
    (_, room, [first, second]) => {
      const before = openHarness(undefined, room, first);
      const after = openHarness(undefined, room, second);
      before.receive(half(60));
      after.receive(half(40));
      expect([closed(before.callbacks), closed(after.callbacks)]).toEqual([false, false]);
      after.receive(part(0, "x", false));
      expect(after.sent()).toEqual([serverClose(1013, "too many bytes in flight")]);
      expect([closed(before.callbacks), closed(after.callbacks)]).toEqual([false, true]);
      before.receive(part(0, "x".repeat(40), false));
      expect(closed(before.callbacks)).toBe(false);
    },
  );

  test("of another key are not counted", () => {
    const room = budgetFor(1_000, 100);
    const stages = ["a", "b", "c"].map((key) => openHarness(undefined, room, key));
    for (const { receive } of stages) receive(half(100));
    expect(stages.some(({ callbacks }) => closed(callbacks))).toBe(false);
  });

  test("are not counted after they are complete, rejected or disconnected", () => {
    const room = budgetFor(100);
    const whole = openHarness(undefined, room);
    whole.receive(half(90));
    whole.receive(part(0, "", true));
    const gone = openHarness(undefined, room);
    gone.receive(half(90));
    gone.socket.onClose();
    const wrong = openHarness(undefined, room);
    wrong.receive(half(90));
    wrong.receive(half(1));
    const tooMuch = openHarness(undefined, room);
    tooMuch.receive(half(101));
    expect(room.fits("a key", 100)).toBe(true);
  });

  test("are not counted if they arrive in one read", () => {
    const { receive, callbacks } = openHarness(undefined, budgetFor(10));
    receive(text("x".repeat(1_000)));
    expect(callbacks).toEqual([`text ${"x".repeat(1_000)}`]);
  });
});
