import { expect, test } from "bun:test";
import { z } from "zod";
import { ApiError } from "../../errors.ts";
import { emailField, nameField } from "../forms/fields.ts";
import { parseInput } from "./parse-input.ts";

/** Every kind of issue that a schema of the console API can produce. */
const CASES: readonly [kind: string, schema: z.ZodType, value: unknown, message: string][] = [
  ["missing", z.string(), undefined, "name: is missing."],
  ["missing, with its own rule for values", nameField, undefined, "name: is missing."],
  ["missing choice", z.enum(["read", "keys"]), undefined, "name: is missing. It must be one of: read, keys."],
  ["null", z.string(), null, "name: must be a text, not null."],
  ["text", z.string(), 1, "name: must be a text."],
  ["number", z.number(), "1", "name: must be a number."],
  ["no number", z.coerce.number().int(), "abc", "name: must be a number."],
  ["fraction", z.int(), 1.5, "name: must be a whole number."],
  ["too large to be exact", z.int(), 1e300, "name: must be at most 9007199254740991."],
  ["boolean", z.boolean(), "yes", "name: must be true or false."],
  ["boolean of a query", z.stringbool(), "perhaps", "name: must be one of: true, false."],
  ["list", z.array(z.string()), "a", "name: must be a list."],
  ["object", z.strictObject({}), "a", "name: must be a map of fields."],
  ["map", z.record(z.string(), z.string()), [], "name: must be a map of names to names."],
  ["field that has no valid value", z.undefined(), 1, "name: must be left out."],
  ["short text", z.string().min(3), "ab", "name: must be a text of at least 3 characters."],
  ["empty text", z.string().min(1), "", "name: must be a text of at least 1 character."],
  ["long text", z.string().max(2), "abc", "name: must be a text of at most 2 characters."],
  ["text of another length", z.string().length(2), "abc", "name: must be a text of 2 characters."],
  ["short list", z.array(z.string()).min(1), [], "name: must be a list with at least 1 entry."],
  ["long list", z.array(z.int()).max(2), [1, 2, 3], "name: must be a list with at most 2 entries."],
  ["short tuple", z.tuple([z.int(), z.int()]), [1], "name: must be a list with at least 2 entries."],
  ["small number", z.number().min(3), 2, "name: must be at least 3."],
  ["large number", z.number().max(3), 4, "name: must be at most 3."],
  ["number on the lower bound", z.number().positive(), 0, "name: must be more than 0."],
  ["number on the upper bound", z.number().lt(3), 3, "name: must be less than 3."],
  ["number between steps", z.number().multipleOf(5), 7, "name: must be a multiple of 5."],
  ["not in the list", z.enum(["a", "b"]), "c", "name: must be one of: a, b."],
  ["not the only value", z.literal("all"), "c", "name: must be all."],
  ["format with a pattern", z.string().regex(/^a$/), "b", "name: must be a text that matches /^a$/."],
  ["union of types", z.union([z.literal("all"), z.array(z.string())]), 3, "name: must be all, or a list."],
  [
    "union by a field",
    z.discriminatedUnion("kind", [z.object({ kind: z.literal("a") }), z.object({ kind: z.literal("b") })]),
    { kind: "c" },
    "name.kind: must be one of: a, b.",
  ],
  [
    "name of a map",
    z.record(z.string().max(2), z.string()),
    { long: "x" },
    "name.long: is not a valid name here: it must be a text of at most 2 characters.",
  ],
  [
    "unknown field with a similar one",
    z.strictObject({ models: z.boolean().optional(), groups: z.boolean().optional() }),
    { modles: true },
    "name.modles: is not a known field. Did you mean models? Allowed here: models, groups.",
  ],
  ["unknown field of nothing", z.strictObject({}), { a: 1 }, "name.a: is not a known field. Remove it."],
  ["entry of a list", z.array(z.string()), ["a", 1], "name.1: must be a text."],
  ["rule without a text", z.string().refine(() => false), "a", "name: must be another value."],
  ["rule of the schema", emailField, "a", "name: must be an e-mail address like ops@example.com"],
];

test.each(CASES)("an invalid field is described in words: %s", (_, schema, value, message) => {
  const field = z.strictObject({ name: schema });
  expect(problem(() => parseInput("body", field, value === undefined ? {} : { name: value })).message).toBe(
    message,
  );
});

test("a problem of the whole input names the part of the request", () => {
  const body = z.strictObject({ name: z.string() });
  const message = (value: unknown, schema: z.ZodType = body) =>
    problem(() => parseInput("body", schema, value)).message;
  expect(message(undefined)).toBe("The body is missing.");
  expect(message([])).toBe("The body must be a map of fields.");
  expect(message({}, z.undefined())).toBe("The body must be left out.");
  const rule = body.refine(() => false, { error: "send either an amount or a plan" });
  expect(message({ name: "a" }, rule)).toBe("send either an amount or a plan");
});

test("all problems are listed up to a bound, and the first field is named separately", () => {
  const body = z.strictObject({ name: z.string(), count: z.int() });
  const both = problem(() => parseInput("body", body, { count: "1" }));
  expect(both).toMatchObject({ param: "name", message: "name: is missing.\ncount: must be a number." });
  const unknown = Object.fromEntries(Array.from({ length: 5_000 }, (_, index) => [`field_${index}`, 1]));
  expect(problem(() => parseInput("body", body, unknown)).message.split("\n")).toHaveLength(20);
  expect(problem(() => parseInput("body", z.strictObject({}), { extra: 1 })).param).toBe("extra");
});

function problem(parse: () => unknown): ApiError {
  try {
    parse();
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
  throw new Error("The input was accepted.");
}
