import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { joinParts, wholeBytesPart } from "../../base/parts.ts";
import { scanObject, wantedFields } from "../../json/scan.ts";
import { spliceParts } from "../../json/splice.ts";
import { RESPONSES_STATE } from "../responses/responses-state.ts";
import { MESSAGES_STATE } from "./messages-state.ts";

const FIELDS = wantedFields(["input", "messages"]);

function drop(body: object | string, isRejected = false): unknown {
  const bytes = new TextEncoder().encode(typeof body === "string" ? body : JSON.stringify(body));
  const scan = scanObject(bytes, 0, bytes.length, FIELDS, { depthMax: 64 });
  if (!scan.ok) throw new Error("not scanned");
  const part = wholeBytesPart(bytes);
  const form = scan.fields.input === undefined ? MESSAGES_STATE : RESPONSES_STATE;
  const splices = isRejected ? form.dropAll(part, scan.fields, 64) : form.dropSealed(part, scan.fields, 64);
  return JSON.parse(new TextDecoder().decode(joinParts(spliceParts(bytes, splices))));
}

const sealed = { type: "thinking", thinking: "Hm.", signature: "gws1.k.x" };
const own = { type: "thinking", thinking: "Hm.", signature: "EqoB" };
const call = { type: "tool_use", id: "t", name: "f", input: {} };
const result = { role: "user", content: [{ type: "tool_result", tool_use_id: "t", content: "x" }] };
const user = { role: "user", content: "hi" };

describe("a Messages body", () => {
  test("loses the thinking of other vendors, and keeps its own", () => {
    const unsigned = { type: "thinking", thinking: "Hm.", signature: "" };
    expect(drop({ messages: [user, { role: "assistant", content: [unsigned, call] }, result] })).toEqual({
      messages: [user, { role: "assistant", content: [call] }, result],
    });
    const redacted = { type: "redacted_thinking", data: "gws1.k.y" };
    expect(
      drop({ messages: [user, { role: "assistant", content: [sealed, own, redacted, call] }, result] }),
    ).toEqual({ messages: [user, { role: "assistant", content: [own, call] }, result] });
  });

  test("has no empty turn afterwards", () => {
    expect(drop({ messages: [user, { role: "assistant", content: [sealed] }, user] })).toMatchObject({
      messages: [user, { role: "assistant", content: [{ type: "text" }] }, user],
    });
  });

  test("thinks without a budget if the last turn has lost its thinking", () => {
    const messages = [user, { role: "assistant", content: [sealed, call] }, result];
    const budget = { type: "enabled", budget_tokens: 2_000 };
    expect(drop({ thinking: budget, messages })).toMatchObject({ thinking: { type: "disabled" } });
    expect(drop({ thinking: { type: "adaptive" }, messages })).toMatchObject({
      thinking: { type: "adaptive" },
    });
    const later = { role: "assistant", content: [own, call] };
    expect(drop({ thinking: budget, messages: [...messages, later, result] })).toMatchObject({
      thinking: budget,
    });
  });

  test("keeps its budget if a new question follows the turn that has lost its thinking", () => {
    const thinking = { type: "enabled", budget_tokens: 2_000 };
    const messages = [user, { role: "assistant", content: [sealed, call] }, result];
    const text = { role: "assistant", content: [sealed, { type: "text", text: "Sunny." }] };
    expect(drop({ thinking, messages: [...messages, text, user] })).toMatchObject({ thinking });
  });

  test("that was rejected loses all thinking and its budget", () => {
    const thinking = { type: "enabled", budget_tokens: 2_000 };
    const messages = [user, { role: "assistant", content: [own, call] }, result];
    expect(drop({ thinking, messages }, true)).toEqual({
      thinking: { type: "disabled" },
      messages: [user, { role: "assistant", content: [call] }, result],
    });
    // The upstream misses thinking that the conversation never had.
    const without = [user, { role: "assistant", content: [call] }, result];
    expect(drop({ thinking, messages: without }, true)).toEqual({
      thinking: { type: "disabled" },
      messages: without,
    });
  });

  test("keeps a text that only looks like an envelope", () => {
    const body = { messages: [{ role: "user", content: [{ type: "text", text: "gws1.k.x" }] }] };
    expect(drop(body)).toEqual(body);
  });
});

test("a Responses body loses the encrypted reasoning of other vendors, and keeps its own", () => {
  const reasoning = (encrypted_content: string) => ({ type: "reasoning", summary: [], encrypted_content });
  expect(drop({ input: [user, reasoning("gws1.k.x"), reasoning("gAAA"), user] })).toEqual({
    input: [user, reasoning("gAAA"), user],
  });
});

test("any order of blocks and white space leaves valid JSON with the other blocks", () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom(sealed, own, call), { minLength: 1 }),
      fc.nat(2),
      (content, indent) => {
        const body = JSON.stringify({ messages: [user, { role: "assistant", content }] }, null, indent);
        const kept = content.filter((block) => block !== sealed);
        expect(drop(body)).toEqual({
          messages: [user, { role: "assistant", content: kept.length === 0 ? [expect.anything()] : kept }],
        });
      },
    ),
  );
});
