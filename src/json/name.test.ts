import { describe, expect, test } from "bun:test";
import { caseVariant, foldCase } from "./name.ts";
import { scanObject, wantedFields } from "./scan.ts";

const NAMES = new Map([
  ["max_tokens", "max_tokens"],
  ["stream", "stream"],
  ["input", "input"],
] as const);

function variant(key: string): string | undefined {
  const bytes = Buffer.from(key);
  return caseVariant(bytes, 0, bytes.length, NAMES);
}

describe("a member name in another case", () => {
  test("is found for all letters that fold to the name", () => {
    for (const key of [
      "Max_Tokens",
      "MAX_TOKENS",
      "max_to\u212aens",
      "max_token\u017f",
      "MAX_TO\\u212aENS",
    ]) {
      expect(variant(key)).toBe("max_tokens");
    }
    for (const key of ["\ufb06ream", "\\ufb06ream", "STREAM"]) expect(variant(key)).toBe("stream");
    for (const key of ["\u0130nput", "\u0131nput"]) expect(variant(key)).toBe("input");
  });

  test("is not found for another name or invalid JSON", () => {
    for (const key of ["temperature", "Temperature", "max_tokens_", "st\\xream", "", "𝐦odel"]) {
      expect(variant(key)).toBeUndefined();
    }
  });

  test("fails a scan only if case variants are rejected", () => {
    const bytes = Buffer.from('{"model":"a","Model":"b"}');
    const scan = (rejectsCaseVariants: boolean) =>
      scanObject(bytes, 0, bytes.length, wantedFields(["model"], { rejectsCaseVariants }), { depthMax: 8 });
    expect(scan(false).ok).toBe(true);
    expect(scan(true)).toMatchObject({ ok: false, reason: "case_variant", field: "model", offset: 13 });
  });

  test("an escaped name is decoded", () => {
    const bytes = Buffer.from('{"mod\\u0065l":"a"}');
    const scan = scanObject(bytes, 0, bytes.length, wantedFields(["model"], { rejectsCaseVariants: true }), {
      depthMax: 8,
    });
    expect(scan).toMatchObject({ ok: true, fields: { model: { start: 14 } } });
  });
});

test("folding is idempotent for names of ASCII letters", () => {
  for (const name of NAMES.keys()) expect(foldCase(name)).toBe(name);
});
