import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { NotingOutlet } from "../net/http-server/socket-writer.test-support.ts";
import { BINARY, buildFrame, CLOSE, PING, PONG, TEXT } from "../net/websocket/frames.ts";
import { wholePart } from "../net/wire/parts.ts";
import {
  closeOf,
  frame,
  goodbye,
  MESSAGE_BYTES_MAX,
  type Owner,
  part,
  roomFor,
  SILENCE_MS,
  stage,
  text,
} from "./connection.test-support.ts";
import { openWebSockets } from "./connection.ts";

describe("messages", () => {
  test("come whole, text and binary, wherever the bytes are cut", () => {
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
      const { told, hear, sent } = stage();
      hear(wire.subarray(0, cut));
      hear(wire.subarray(cut));
      expect(told).toEqual(expected);
      expect(sent()).toEqual([[PONG, "?"]]);
    }
  });

  test("come whole in whatever fragments and pieces they are sent, control frames between them", () => {
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
          const { told, hear } = stage();
          for (let at = 0, i = 0; at < wire.length; i++) {
            const to = at + 1 + (pieces[i % pieces.length] ?? 0);
            hear(wire.subarray(at, to));
            at = to;
          }
          expect(told).toEqual(messages.map(({ words }) => `text ${words}`));
        },
      ),
      { numRuns: 300 },
    );
  });

  test("of two connections that come in turns are not mixed up", () => {
    const heard: string[] = [];
    const all = openWebSockets<Owner>({
      unfinished: roomFor(1_000),
      messageBytesMax: MESSAGE_BYTES_MAX,
      silenceMs: SILENCE_MS,
      message: ({ name }, _, bytes) => void heard.push(`${name} ${Buffer.from(bytes)}`),
      drained() {},
      closed() {},
    });
    all.stop();
    const sockets = ["a", "b"].map((name) => all.open(new NotingOutlet(), { name }, name));
    const wires = [text("one"), Buffer.concat([text("two"), text("more")])];
    for (let at = 0; at < 40; at++) {
      sockets.forEach((socket, i) => void socket.received(Buffer.from(wires[i]?.subarray(at, at + 1) ?? [])));
    }
    expect(heard).toEqual(["a one", "b two", "b more"]);
  });

  test("that are short do not keep the long read they came with", () => {
    const kept: Uint8Array[] = [];
    const all = openWebSockets<Owner>({
      unfinished: roomFor(1_000),
      messageBytesMax: MESSAGE_BYTES_MAX,
      silenceMs: SILENCE_MS,
      message: (_, _kind, bytes) => void kept.push(bytes),
      drained() {},
      closed() {},
    });
    all.stop();
    all
      .open(new NotingOutlet(), { name: "a" }, "a")
      .received(Buffer.concat([text("short"), text("x".repeat(90_000)), text("short")]));
    expect(kept.map(({ buffer }) => buffer.byteLength > 90_000)).toEqual([false, true, false]);
  });

  test("that are not UTF-8 close with 1007, also when only the whole of them is not", () => {
    for (const wire of [
      [frame(TEXT, Uint8Array.of(0x61, 0xff))],
      [part(TEXT, Uint8Array.of(0xc3), false), part(0, "a", true)],
      [frame(TEXT, Uint8Array.of(0xed, 0xa0, 0x80))],
    ]) {
      const { told, hear, sent, outlet } = stage();
      hear(...wire, text("late"));
      expect(told).toEqual(["closed"]);
      expect(sent()).toEqual([closeOf(1007, "a text is not valid UTF-8")]);
      expect(outlet.isEnded).toBe(false);
      hear(goodbye(1007));
      expect(outlet.isEnded).toBe(true);
    }
  });

  test("may be cut within a character", () => {
    const { told, hear } = stage();
    hear(part(TEXT, Uint8Array.of(0xc3), false), part(0, Uint8Array.of(0xa4), true));
    expect(told).toEqual(["text ä"]);
  });

  test("that are too long close with 1009 as soon as they are announced, whatever follows", () => {
    for (const wire of [
      [text("x".repeat(MESSAGE_BYTES_MAX + 1)).subarray(0, 14)],
      [part(TEXT, "x".repeat(MESSAGE_BYTES_MAX), false), part(0, "x", true)],
    ]) {
      const { told, hear, sent, outlet, look } = stage();
      hear(...wire);
      hear(text("late"), goodbye(1000));
      expect(told).toEqual(["closed"]);
      expect(sent()).toEqual([closeOf(1009, `a message of more than ${MESSAGE_BYTES_MAX} bytes`)]);
      // The client may still be sending: closing now would reset the connection before the client has read the reason.
      expect(outlet.isEnded).toBe(false);
      look(1);
      expect(outlet.isEnded).toBe(true);
    }
  });
});

describe("what no client may send", () => {
  const cases: [what: string, wire: Uint8Array, reason: string][] = [
    ["a frame without a mask", buildFrame(TEXT, wholePart(Buffer.from("a")), null), "a frame is not masked"],
    ["a reserved bit", Uint8Array.of(0xc1, 0x80, 0, 0, 0, 0), "a reserved bit is set"],
    ["an unknown opcode", Uint8Array.of(0x83, 0x80, 0, 0, 0, 0), "an unknown opcode"],
    ["a ping in parts", part(PING, "a", false), "a control frame in parts"],
    ["a long ping", frame(PING, "x".repeat(126)), "a control frame is too long"],
    ["a continuation of nothing", part(0, "a", true), "a message goes on that never began"],
  ];
  for (const [what, wire, reason] of cases) {
    test(`${what} closes with 1002 and says why`, () => {
      const { told, hear, sent, outlet, look } = stage();
      hear(wire);
      hear(text("late"));
      expect(told).toEqual(["closed"]);
      expect(sent()).toEqual([closeOf(1002, reason)]);
      look(1);
      expect(outlet.isEnded).toBe(true);
    });
  }

  for (const payload of [[3], [0x03, 0xed], [0x03, 0xee], [0, 0], [0x13, 0x88], [0x03, 0xe8, 0xff]]) {
    test(`a close of ${JSON.stringify(payload)} is answered with 1002`, () => {
      const { told, hear, sent, outlet } = stage();
      hear(frame(CLOSE, Uint8Array.from(payload)));
      expect(told).toEqual(["closed"]);
      expect(sent()).toEqual([closeOf(1002, "a close without a proper code and reason")]);
      expect(outlet.isEnded).toBe(true);
    });
  }
});

test("whatever bytes come, nothing is thrown, and at most one close is said", () => {
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ maxLength: 60 }), { maxLength: 5 }),
      fc.boolean(),
      (pieces, begins) => {
        const { hear, sent, told } = stage((socket) => socket.sendText("heard"));
        if (begins) hear(part(TEXT, "a", false));
        for (const piece of pieces) hear(piece);
        expect(sent().filter(([opcode]) => opcode === CLOSE).length).toBeLessThanOrEqual(1);
        expect(told.indexOf("closed")).toBe(told.includes("closed") ? told.length - 1 : -1);
      },
    ),
    { numRuns: 500 },
  );
});

describe("what is sent", () => {
  test("is one write for a frame", () => {
    const { socket, outlet, sent } = stage();
    socket.sendText("häl𝄞lo");
    socket.sendUtf8('{"a":', Buffer.from("--1}--"), 2, 4);
    expect(sent().map(([opcode, payload]) => [opcode, Buffer.from(payload, "latin1").toString()])).toEqual([
      [TEXT, "häl𝄞lo"],
      [TEXT, '{"a":1}'],
    ]);
    expect(outlet.writes).toHaveLength(2);
  });

  test("is one write for all that is corked, also when sending fails", () => {
    const { socket, outlet, sent } = stage();
    expect(() =>
      socket.cork(() => {
        socket.sendText("one");
        socket.sendText("two");
        expect(socket.bufferedBytes).toBe(10);
        throw new Error("failed");
      }),
    ).toThrow("failed");
    expect(outlet.writes).toHaveLength(1);
    socket.sendText("three");
    expect(sent().map(([, payload]) => payload)).toEqual(["one", "two", "three"]);
    expect(outlet.writes).toHaveLength(2);
  });

  test("is one write for all that one read is answered with", () => {
    const { hear, outlet, sent } = stage((socket) => socket.sendText("answer"));
    hear(text("a"), frame(PING, "1"), text("b"), frame(PING, "2"));
    expect(sent()).toEqual([
      [TEXT, "answer"],
      [PONG, "1"],
      [TEXT, "answer"],
      [PONG, "2"],
    ]);
    expect(outlet.writes).toHaveLength(1);
  });

  test("counts as buffered while the client does not take it, until it does", () => {
    const { socket, outlet, told } = stage();
    outlet.isSlow = true;
    socket.sendText("12345");
    expect(socket.bufferedBytes).toBe(7);
    outlet.bufferedBytes = 0;
    socket.drained();
    expect(told).toEqual(["drained"]);
  });

  test("is nothing after a close, or after the end", () => {
    const { socket, outlet } = stage();
    socket.close(1000, "");
    socket.sendText("late");
    socket.sendUtf8("", Buffer.from("late"), 0, 4);
    socket.close(1001, "");
    socket.closed();
    socket.close(1001, "");
    expect(outlet.writes).toHaveLength(1);
  });
});

describe("pings", () => {
  test("are answered with what they said", () => {
    const { hear, sent } = stage();
    hear(frame(PING, ""), frame(PING, "x".repeat(125)));
    expect(sent()).toEqual([
      [PONG, ""],
      [PONG, "x".repeat(125)],
    ]);
  });

  test("of a client that takes nothing are answered once, for the last of them, when it does", () => {
    const { socket, hear, sent, outlet, told } = stage();
    outlet.isSlow = true;
    socket.sendText("slowly");
    for (let i = 0; i < 100; i++) hear(frame(PING, String(i)));
    expect(outlet.writes).toHaveLength(1);
    outlet.isSlow = false;
    outlet.bufferedBytes = 0;
    socket.drained();
    socket.drained();
    expect(sent()).toEqual([
      [TEXT, "slowly"],
      [PONG, "99"],
    ]);
    expect(told).toEqual(["drained", "drained"]);
  });

  test("are not answered after a close", () => {
    const { socket, hear, sent } = stage();
    socket.close(1000, "");
    hear(frame(PING, "?"));
    expect(sent()).toEqual([closeOf(1000)]);
  });

  test("that nobody asked for are let go", () => {
    const { hear, sent, told } = stage();
    hear(frame(PONG, "?"), text("a"));
    expect(sent()).toEqual([]);
    expect(told).toEqual(["text a"]);
  });
});

describe("messages that are not whole yet", () => {
  const half = (bytes: number) => part(TEXT, "x".repeat(bytes), false);
  const closed = (told: readonly string[]) => told.includes("closed");

  test.each([
    ["of all", roomFor(100), ["a", "b"]],
    ["of one key", roomFor(1_000, 100), ["a", "a"]],
  ] as const)(
    "%s have a bound, and whoever goes beyond it is closed with 1013",
    (_, room, [first, second]) => {
      const before = stage(undefined, room, first);
      const after = stage(undefined, room, second);
      before.hear(half(60));
      after.hear(half(40));
      expect([closed(before.told), closed(after.told)]).toEqual([false, false]);
      after.hear(part(0, "x", false));
      expect(after.sent()).toEqual([closeOf(1013, "too much is being sent at once")]);
      expect([closed(before.told), closed(after.told)]).toEqual([false, true]);
      before.hear(part(0, "x".repeat(40), false));
      expect(closed(before.told)).toBe(false);
    },
  );

  test("of another key are not counted", () => {
    const room = roomFor(1_000, 100);
    const stages = ["a", "b", "c"].map((key) => stage(undefined, room, key));
    for (const { hear } of stages) hear(half(100));
    expect(stages.some(({ told }) => closed(told))).toBe(false);
  });

  test("count no more when they are whole, when their connection is gone, or when they are refused", () => {
    const room = roomFor(100);
    const whole = stage(undefined, room);
    whole.hear(half(90));
    whole.hear(part(0, "", true));
    const gone = stage(undefined, room);
    gone.hear(half(90));
    gone.socket.closed();
    const wrong = stage(undefined, room);
    wrong.hear(half(90));
    wrong.hear(half(1));
    const tooMuch = stage(undefined, room);
    tooMuch.hear(half(101));
    expect(room.hasRoom("a key", 100)).toBe(true);
  });

  test("are not counted when they come in one read", () => {
    const { hear, told } = stage(undefined, roomFor(10));
    hear(text("x".repeat(1_000)));
    expect(told).toEqual([`text ${"x".repeat(1_000)}`]);
  });
});
