import { describe, expect, test } from "bun:test";
import type { JsonField } from "../../json/scan.ts";
import { readConversationStart, readSession } from "./conversation-name.ts";

describe("the session in the request headers", () => {
  test.each([
    "x-claude-code-session-id",
    "session-id",
    "session_id",
    "thread-id",
    "x-session-affinity",
    "x-session-id",
  ])("is %s", (name) => {
    expect(readSession(new Headers({ [name]: "abc" }))).toBe("abc");
  });

  test("is the first of several headers", () => {
    expect(
      readSession(new Headers({ "x-session-id": "later", "thread-id": "thread", "session-id": "first" })),
    ).toBe("first");
  });

  test("is null without such a header or with an empty one", () => {
    expect(readSession(new Headers({ "x-request-id": "abc" }))).toBeNull();
    expect(readSession(new Headers({ "session-id": "" }))).toBeNull();
    expect(readSession(new Headers({ "session-id": "", "thread-id": "abc" }))).toBe("abc");
  });
});

describe("the start of a conversation", () => {
  const said = (role: string, content: string) => ({ role, content });
  const SYSTEM = said("system", "Be brief.");

  function beginning(messages: unknown, kind: JsonField["kind"] = "array"): string | null {
    const bytes = new TextEncoder().encode(JSON.stringify(messages));
    return readConversationStart(bytes, { kind, keyStart: 0, start: 0, end: bytes.length, values: 0 });
  }

  test("is the same for every following turn", () => {
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

  test("depends on the first two messages only", () => {
    const rest = said("user", "More");
    const of = (first: object, second: object, third: object) => beginning([first, second, third]);
    const known = of(SYSTEM, said("user", "Hi"), rest);
    expect(of(SYSTEM, said("user", "Ho"), rest)).not.toBe(known);
    expect(of(said("system", "Be long."), said("user", "Hi"), rest)).not.toBe(known);
    expect(of(SYSTEM, said("user", "Hi"), said("user", "Else"))).toBe(known);
  });

  test("is null for fewer than three messages, because many conversations start alike", () => {
    expect(beginning([SYSTEM])).toBeNull();
    expect(beginning([SYSTEM, said("user", "Hi")])).toBeNull();
    expect(beginning([])).toBeNull();
  });

  test("is null without messages", () => {
    expect(readConversationStart(new Uint8Array(), undefined)).toBeNull();
    expect(beginning("a text", "string")).toBeNull();
  });
});
