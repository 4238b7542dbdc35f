import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { mapModel } from "./model-map.ts";

describe("an account's model map", () => {
  test("an exact entry maps to its upstream model", () => {
    expect(mapModel({ fast: "gpt-6-mini" }, "fast")).toBe("gpt-6-mini");
  });

  test("a name without an entry is not served", () => {
    expect(mapModel({ fast: "gpt-6-mini" }, "slow")).toBeNull();
    expect(mapModel({}, "slow")).toBeNull();
  });

  test("a wildcard on both sides copies the rest of the name", () => {
    expect(mapModel({ "gpt-*": "eu-gpt-*" }, "gpt-6")).toBe("eu-gpt-6");
    expect(mapModel({ "*": "*" }, "org/any-model")).toBe("org/any-model");
  });

  test("a wildcard with a plain target maps every match to that model", () => {
    expect(mapModel({ "gpt-*": "gpt-6" }, "gpt-anything")).toBe("gpt-6");
  });

  test("a wildcard also matches its bare prefix", () => {
    expect(mapModel({ "gpt-*": "eu-*" }, "gpt-")).toBe("eu-");
  });

  test("an exact entry takes precedence over any wildcard", () => {
    expect(mapModel({ "*": "a", "gpt-*": "b", "gpt-6": "c" }, "gpt-6")).toBe("c");
  });

  test("the longest wildcard wins, whatever its position in the map", () => {
    expect(mapModel({ "*": "a", "gpt-*": "b", "gpt-6-*": "c" }, "gpt-6-mini")).toBe("c");
    expect(mapModel({ "gpt-6-*": "c", "gpt-*": "b", "*": "a" }, "gpt-6-mini")).toBe("c");
    expect(mapModel({ "gpt-6-*": "c", "gpt-*": "b", "*": "a" }, "gpt-5")).toBe("b");
  });

  test("inherited property names are not in the map", () => {
    for (const name of ["constructor", "toString", "__proto__", "hasOwnProperty"]) {
      expect(mapModel({}, name)).toBeNull();
    }
  });

  test("the result does not depend on the order of the entries", () => {
    const name = fc.stringMatching(/^[ab]{0,4}$/);
    const entry = fc.tuple(
      fc.tuple(name, fc.boolean()).map(([prefix, wild]) => (wild ? `${prefix}*` : `${prefix}x`)),
      name.map((target) => `${target}*`),
    );
    fc.assert(
      fc.property(fc.uniqueArray(entry, { selector: ([pattern]) => pattern }), name, (entries, asked) => {
        const forwards = mapModel(Object.fromEntries(entries), asked);
        const backwards = mapModel(Object.fromEntries(entries.toReversed()), asked);
        expect(backwards).toBe(forwards);
      }),
    );
  });
});
