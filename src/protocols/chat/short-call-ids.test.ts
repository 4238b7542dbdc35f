import { expect, test } from "bun:test";
import fc from "fast-check";
import { scanObject, wantedFields } from "../../json/scan.ts";
import { applySplices } from "../../json/splice.ts";
import { ShortCallIds, shortenCallIds } from "./short-call-ids.ts";

const MESSAGES = wantedFields(["messages"]);

function shorten(body: object): unknown {
  const bytes = Buffer.from(JSON.stringify(body));
  const scan = scanObject(bytes, 0, bytes.length, MESSAGES, { depthMax: 32 });
  if (!scan.ok) throw new Error("not an object");
  return JSON.parse(Buffer.from(applySplices(bytes, shortenCallIds(bytes, scan.fields.messages))).toString());
}

test("ids of other vendors become nine letters and digits, different ones for different calls", () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.string({ minLength: 1 }), { maxLength: 40 }), (callIds) => {
      const ids = new ShortCallIds();
      const shortIds = callIds.map((callId) => ids.assign(callId));
      for (const shortId of shortIds) expect(shortId).toMatch(/^[A-Za-z0-9]{9}$/);
      expect(new Set(shortIds).size).toBe(callIds.length);
    }),
  );
});

test("the beginning of a conversation has the same ids in each turn, and Mistral's own ids stay", () => {
  const callIds = ["call_NJ3", "D681PevKs", "toolu_01"];
  const first = new ShortCallIds();
  const one = first.assign(callIds[0] ?? "");
  const longer = new ShortCallIds();
  expect(callIds.map((callId) => longer.assign(callId))).toEqual([
    one,
    "D681PevKs",
    first.assign("toolu_01"),
  ]);
});

test("an id that equals the digest of an earlier one is replaced", () => {
  const digest = new ShortCallIds().assign("call_1");
  const ids = new ShortCallIds();
  expect([ids.assign("call_1"), ids.assign(digest)]).not.toEqual([digest, digest]);
});

test("in a body that passes through, calls and their outputs keep belonging together, and nothing else changes", () => {
  const id = new ShortCallIds().assign("call_NJ3");
  const build = (callId: string) => ({
    model: "m",
    tools: [{ type: "function", function: { parameters: { tool_call_id: "call_NJ3" } } }],
    messages: [
      { role: "user", content: 'The text "tool_call_id": "call_NJ3", {"tool_calls":[{"id":"call_NJ3"}]}' },
      {
        role: "assistant",
        tool_calls: [
          { id: callId, function: { name: "f", arguments: '{"id":"call_NJ3"}' } },
          { id: "D681PevKs" },
        ],
      },
      { role: "tool", tool_call_id: callId, content: "call_NJ3" },
      { role: "tool", tool_call_id: "D681PevKs", content: "tool_call_id" },
    ],
  });
  expect(shorten(build("call_NJ3"))).toEqual(build(id));
});
