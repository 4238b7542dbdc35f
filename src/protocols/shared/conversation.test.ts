import { describe, expect, test } from "bun:test";
import type { JsonField } from "../../json/scan.ts";
import { readConversationStart, readSession } from "./conversation.ts";

describe("the session a client names in its headers", () => {
  test.each(["session-id", "session_id", "thread-id", "x-session-affinity", "x-session-id"])(
    "is %s",
    (name) => {
      expect(readSession(new Headers({ [name]: "abc" }))).toBe("abc");
    },
  );

  test("is the first of several", () => {
    expect(
      readSession(new Headers({ "x-session-id": "later", "thread-id": "thread", "session-id": "first" })),
    ).toBe("first");
  });

  test("is none when there is no such header, or an empty one", () => {
    expect(readSession(new Headers({ "x-request-id": "abc" }))).toBeNull();
    expect(readSession(new Headers({ "session-id": "" }))).toBeNull();
    expect(readSession(new Headers({ "session-id": "", "thread-id": "abc" }))).toBe("abc");
  });
});

describe("the beginning of a conversation", () => {
  const said = (role: string, content: string) => ({ role, content });
  const SYSTEM = said("system", "Be brief.");

  function beginning(messages: unknown, kind: JsonField["kind"] = "array"): string | null {
    const bytes = new TextEncoder().encode(JSON.stringify(messages));
    return readConversationStart(bytes, { kind, keyStart: 0, start: 0, end: bytes.length });
  }

  test("is the same for every turn that follows it", () => {
    const turns = [
      SYSTEM,
      said("user", "Hi"),
      said("assistant", "Hello"),
      said("user", "More"),
      said("user", "!"),
    ];
    const known = [3, 4, 5].map((count) => beginning(turns.slice(0, count)));
    expect(new Set(known).size).toBe(1);
    expect(known[0]).not.toBeNull();
  });

  test("differs by its first two messages, and by nothing after them", () => {
    const rest = said("user", "More");
    const of = (first: object, second: object, third: object) => beginning([first, second, third]);
    const known = of(SYSTEM, said("user", "Hi"), rest);
    expect(of(SYSTEM, said("user", "Ho"), rest)).not.toBe(known);
    expect(of(said("system", "Be long."), said("user", "Hi"), rest)).not.toBe(known);
    expect(of(SYSTEM, said("user", "Hi"), said("user", "Else"))).toBe(known);
  });

  test("says nothing while there are only two: many begin alike", () => {
    expect(beginning([SYSTEM])).toBeNull();
    expect(beginning([SYSTEM, said("user", "Hi")])).toBeNull();
    expect(beginning([])).toBeNull();
  });

  test("says nothing when there are no messages", () => {
    expect(readConversationStart(new Uint8Array(), undefined)).toBeNull();
    expect(beginning("a text", "string")).toBeNull();
  });
});
