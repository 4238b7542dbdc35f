import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { z } from "zod";
import { OPERATIONS } from "../../src/public-api/operations.ts";
import { KNOWN_OPERATIONS } from "./described.ts";
import { findSchemaProblems } from "./schema-problems.ts";
import { bodySchema } from "./structure.ts";

const schema = bodySchema({
  schema: z.strictObject({
    model: z.string().min(1),
    count: z.int().min(1).max(9).nullish(),
    mode: z.enum(["fast", "slow"]).optional(),
    stop: z.union([z.string(), z.array(z.string())]).optional(),
    parts: z
      .array(
        z.union([
          z.looseObject({ type: z.literal("text"), text: z.string() }),
          z.looseObject({ type: z.literal("image"), url: z.string() }),
        ]),
      )
      .optional(),
  }),
});
const problems = (value: unknown) => findSchemaProblems(schema, value);

describe("the check of a body", () => {
  test("accepts what fits", () => {
    expect(problems({ model: "a", count: null, mode: "slow", stop: ["x"] })).toEqual([]);
  });

  test("names the types that are expected, of all choices", () => {
    expect(problems([])).toEqual([{ kind: "type", path: [], expected: ["object"] }]);
    expect(problems({ model: "a", stop: 1 })).toEqual([
      { kind: "type", path: ["stop"], expected: ["string", "array"] },
    ]);
  });

  test("names members that are missing or forbidden", () => {
    expect(problems({ modell: "a" })).toEqual([
      { kind: "missing", path: ["model"] },
      { kind: "unknown", path: ["modell"] },
    ]);
  });

  test("names allowed values, ranges and lengths", () => {
    expect(problems({ model: "", count: 10, mode: "medium" })).toEqual([
      { kind: "length", path: ["model"], minimum: 1, maximum: undefined },
      { kind: "range", path: ["count"], minimum: 1, maximum: 9 },
      { kind: "value", path: ["mode"], allowed: ["fast", "slow"] },
    ]);
  });

  test("of a union follows the choice that was meant", () => {
    expect(problems({ model: "a", parts: [{ type: "image" }] })).toEqual([
      { kind: "missing", path: ["parts", 0, "url"] },
    ]);
  });

  test("does not take inherited names for members", () => {
    expect(problems(JSON.parse('{"model": "a", "constructor": 1, "__proto__": 1}'))).toEqual([
      { kind: "unknown", path: ["constructor"] },
      { kind: "unknown", path: ["__proto__"] },
    ]);
  });
});

/** A body with one value in it replaced. */
function replaceAt(value: unknown, at: number, replacement: unknown): unknown {
  let left = at;
  const copy = (one: unknown): unknown => {
    if (left-- === 0) return replacement;
    if (Array.isArray(one)) return one.map(copy);
    if (typeof one !== "object" || one === null) return one;
    return Object.fromEntries(Object.entries(one).map(([name, member]) => [name, copy(member)]));
  };
  return copy(value);
}

test.each(Object.values(OPERATIONS).flatMap(({ id, body }) => (body === null ? [] : [id])))(
  "bodies of %s are judged as the gateway's own schema judges them",
  (id) => {
    const content = Object.values(OPERATIONS).find((one) => one.id === id)?.body?.["application/json"];
    const known = KNOWN_OPERATIONS.find((one) => one.id === id);
    if (content === undefined || known === undefined) throw new Error(`${id} takes no JSON.`);
    for (const { value } of content.examples) {
      expect(findSchemaProblems(known.schema, value)).toEqual([]);
      fc.assert(
        fc.property(fc.nat(20), fc.jsonValue(), (at, replacement) => {
          const changed = replaceAt(value, at, replacement);
          const isValid = content.schema.safeParse(changed).success;
          expect([changed, findSchemaProblems(known.schema, changed).length === 0]).toEqual([
            changed,
            isValid,
          ]);
        }),
        { numRuns: 300 },
      );
    }
  },
);
