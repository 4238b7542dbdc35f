import { expect, test } from "bun:test";
import { integerOrNull, text } from "./row.ts";
import { choice, rowReader } from "./row-reader.ts";

const readKey = rowReader({
  id: text,
  usedAtMs: integerOrNull,
  state: choice(["open", "closed"]),
  label: (row) => `${text(row, "id")}!`,
});

test("each field is read from the column of its name", () => {
  const row = { id: "a", used_at_ms: null, state: "open", further: 1 };
  expect(readKey(row)).toEqual({ id: "a", usedAtMs: null, state: "open", label: "a!" });
});

test("a value of another type is rejected with the name of its column", () => {
  expect(() => readKey({ id: "a", used_at_ms: "1", state: "open" })).toThrow("used_at_ms of row a");
  expect(() => readKey({ id: "a", used_at_ms: 1, state: "ajar" })).toThrow("state of row a");
});
