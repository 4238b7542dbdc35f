import { describe, expect, test } from "bun:test";
import { type Part, partBytes } from "../../base/parts.ts";
import { CHUNKED } from "../wire/http-fields.ts";
import type { BodyLoss } from "../wire/http-message.ts";
import { IncomingBody, WholeBody } from "./incoming-body.ts";

/** A body whose connection records the calls. */
function openBody(framing: number) {
  const asked: string[] = [];
  const body = new IncomingBody(framing, {
    onBodyRequested: () => void asked.push("wanted"),
    resume: () => void asked.push("resume"),
  });
  const push = (text: string) => body.push(Buffer.from(text, "latin1"), 0);
  return { body, asked, push };
}

function readText(read: Part | Uint8Array | BodyLoss | null): string | null {
  if (read === null) return null;
  if ("kind" in read) return read.kind;
  return Buffer.from(read instanceof Uint8Array ? read : partBytes(read)).toString("latin1");
}

/** The bytes to come, one read after the other. */
async function readAll(body: IncomingBody): Promise<string> {
  let text = "";
  for (let read = await body.next(); read !== null; read = await body.next()) {
    if (!(read instanceof Uint8Array)) return `${text}(${read.kind})`;
    text += readText(read);
  }
  return text;
}

const CHUNKS = "5;x=y\r\nhello\r\n1\r\n \r\n005\r\nworld\r\n0\r\nt: u\r\n\r\n";

const FRAMINGS = [
  ["of known length", 11, "hello world"],
  ["in chunks", CHUNKED, CHUNKS],
] as const;

describe.each(FRAMINGS)("an incoming body %s", (_name, framing, sent) => {
  test("reports its length if it is known", () => {
    expect(openBody(framing).body.length).toBe(framing === CHUNKED ? null : framing);
  });

  test("is complete when split at any byte, and the bytes after it are not consumed", async () => {
    for (let at = 0; at <= sent.length; at++) {
      const { body, push } = openBody(framing);
      const whole = body.whole();
      push(sent.slice(0, at));
      if (at < sent.length)
        expect([body.isOver, push(`${sent.slice(at)}GET`)]).toEqual([false, sent.length - at]);
      expect(readText(await whole)).toBe("hello world");
      expect([body.isOver, body.isBroken]).toEqual([true, false]);
    }
  });

  test("is complete if it is requested at any time", async () => {
    for (let at = 0; at <= sent.length; at++) {
      const { body, push } = openBody(framing);
      push(sent.slice(0, at));
      const whole = body.whole();
      if (at < sent.length) push(sent.slice(at));
      expect(readText(await whole)).toBe("hello world");
    }
  });

  test("yields pieces when split at any byte, and ends with null", async () => {
    for (let at = 0; at <= sent.length; at++) {
      const { body, push } = openBody(framing);
      const all = readAll(body);
      push(sent.slice(0, at));
      if (at < sent.length) push(sent.slice(at));
      expect(await all).toBe("hello world");
      expect(await body.next()).toBeNull();
    }
  });

  test("is available synchronously if it has arrived completely", async () => {
    const { body, push, asked } = openBody(framing);
    push(sent);
    const whole = body.whole();
    expect(whole).not.toBeInstanceOf(Promise);
    expect(readText(await whole)).toBe("hello world");
    expect(asked).toEqual([]);
  });

  test("is gone when its connection closes, after the received pieces", async () => {
    const { body, push } = openBody(framing);
    push(sent.slice(0, -1));
    body.fail();
    expect([body.isOver, body.isBroken]).toEqual([true, false]);
    expect(await readAll(body)).toEndWith("(gone)");
  });

  test("is gone for pending reads when its connection closes", async () => {
    for (const ask of ["whole", "next"] as const) {
      const { body } = openBody(framing);
      const read = body[ask]();
      body.fail();
      expect(readText(await read)).toBe("gone");
    }
  });

  test("is gone for pending reads when it is discarded, and its end is still found", async () => {
    for (const ask of ["whole", "next"] as const) {
      const { body, push } = openBody(framing);
      const read = body[ask]();
      body.discard();
      expect(readText(await read)).toBe("gone");
      expect(push(`${sent}GET`)).toBe(sent.length);
      expect(body.isOver).toBe(true);
    }
  });
});

test("a complete body stays complete after its connection closed", async () => {
  const { body, push } = openBody(3);
  push("abc");
  body.fail();
  expect(readText(await body.whole())).toBe("abc");
});

test("a body with invalid framing is broken, with the reason, after the pieces before it", async () => {
  const { body, push } = openBody(CHUNKED);
  push("5\r\nhello\r\nx");
  expect([body.isOver, body.isBroken]).toEqual([true, true]);
  expect(readText(await body.next())).toBe("hello");
  expect(await body.next()).toEqual({ kind: "broken", reason: "a chunk without a size" });
  const asked = openBody(CHUNKED);
  const whole = asked.body.whole();
  asked.push("5\r\nhello!");
  expect(await whole).toEqual({ kind: "broken", reason: "a chunk longer than its size" });
});

test("a long body is complete, preallocated or not", async () => {
  for (const length of [1_000_000, 3_000_000]) {
    const { body } = openBody(length);
    const sent = Buffer.alloc(length, "0123456789");
    body.push(Buffer.from(sent.subarray(0, 50_000)), 0);
    const whole = body.whole();
    for (let at = 50_000; at < length; at += 100_000)
      body.push(Buffer.from(sent.subarray(at, at + 100_000)), 0);
    const read = await whole;
    expect(!("kind" in read) && sent.equals(partBytes(read))).toBe(true);
  }
});

test("a body from several pieces has free memory before it for another request head", async () => {
  const { body, push } = openBody(11);
  const whole = body.whole();
  push("hello ");
  push("world");
  const read = await whole;
  expect(readText(read)).toBe("hello world");
  expect(!("kind" in read) && read.bytes.byteOffset + read.start).toBeGreaterThanOrEqual(1_000);
});

describe("the connection of a body", () => {
  test("gets one wanted call if the body is read before any of it arrived", () => {
    const { body, push, asked } = openBody(20);
    void body.next();
    push("abc");
    void body.next();
    expect(asked.filter((word) => word === "wanted")).toHaveLength(1);
    expect(body.isWanted).toBe(true);
  });

  test("gets no wanted call if the body has begun to arrive", () => {
    const { body, push, asked } = openBody(20);
    push("abc");
    void body.whole();
    expect(asked).not.toContain("wanted");
  });

  test("is paused when many unread bytes have arrived, and resumed when they are read", () => {
    const { body, push, asked } = openBody(1_000_000);
    push("x".repeat(64 * 1024));
    expect(body.isAhead).toBe(false);
    push("x");
    expect([body.isAhead, body.isUnrequested]).toEqual([true, true]);
    void body.whole();
    expect([body.isAhead, body.isUnrequested, asked.at(-1)]).toEqual([false, false, "resume"]);
  });

  test("is not paused while the whole body is awaited", () => {
    const { body, push } = openBody(1_000_000);
    void body.whole();
    push("x".repeat(500_000));
    expect(body.isAhead).toBe(false);
  });

  test("is paused at each unread piece, and resumed when all pieces are read", async () => {
    const { body, push, asked } = openBody(20);
    void body.next();
    push("taken");
    expect(body.isAhead).toBe(false);
    push("first");
    push("second");
    asked.length = 0;
    expect([readText(await body.next()), body.isAhead]).toEqual(["first", true]);
    expect([readText(await body.next()), body.isAhead]).toEqual(["second", false]);
    expect(asked).toEqual([]);
    void body.next();
    expect(asked).toEqual(["resume"]);
  });

  test("is resumed when the rest is discarded, and not paused again", () => {
    const { body, push, asked } = openBody(1_000_000);
    push("x".repeat(100_000));
    body.discard();
    push("x".repeat(800_000));
    expect([body.isAhead, body.isUnrequested, asked]).toEqual([false, false, ["resume"]]);
  });
});

test("a discarded body is gone for later reads", async () => {
  for (const ask of ["whole", "next"] as const) {
    const { body, push } = openBody(10);
    push("hello");
    body.discard();
    expect(readText(await body[ask]())).toBe("gone");
    push("world");
    expect(readText(await body[ask]())).toBe("gone");
  }
});

describe("a body that arrived with its head", () => {
  const body = () => new WholeBody(Buffer.from("head hello rest"), 5, 10);

  test("is available synchronously", () => {
    expect([body().length, readText(body().whole())]).toEqual([5, "hello"]);
  });

  test("is not copied if no bytes follow it", () => {
    const bytes = Buffer.from("head hello");
    const { bytes: found, start, end } = new WholeBody(bytes, 5, 10).whole();
    expect([found === bytes, start, end]).toEqual([true, 5, 10]);
  });

  test("is copied if another request follows it", () => {
    expect(body().whole().bytes.length).toBe(5);
  });

  test("is returned once", async () => {
    const one = body();
    expect([readText(one.whole()), readText(one.whole()), await one.next()]).toEqual(["hello", "", null]);
  });

  test("yields one piece, then null", async () => {
    const one = body();
    expect([readText(await one.next()), await one.next()]).toEqual(["hello", null]);
  });
});

describe("a body in tiny pieces", () => {
  const text = Array.from({ length: 40_000 }, (_, i) => String.fromCharCode(97 + (i % 26))).join("");

  test("that is unread takes little more memory than its bytes", async () => {
    const { body, push } = openBody(text.length);
    for (const byte of text) push(byte);
    let pieces = 0;
    let read = "";
    for (let piece = await body.next(); piece instanceof Uint8Array; piece = await body.next()) {
      pieces++;
      read += readText(piece);
    }
    expect(read).toBe(text);
    expect(pieces).toBeLessThan(5);
  });

  test("mixed with longer pieces is complete, whole or piece by piece", async () => {
    for (const isWhole of [true, false]) {
      const { body, push } = openBody(CHUNKED);
      const reading = isWhole ? body.whole() : null;
      let sent = "";
      let read = "";
      for (let i = 0; i < 300; i++) {
        const length = [1, 700, 3, 1_024, 5_000, 2, 1_025][i % 7] as number;
        const data = text.slice(i, i + length);
        sent += data;
        push(`${length.toString(16)}\r\n${data}\r\n`);
        if (!isWhole && i % 5 === 4) read += readText(await body.next());
      }
      push("0\r\n\r\n");
      read += reading === null ? await readAll(body) : readText(await reading);
      expect(read).toBe(sent);
    }
  });
});
