import { expect, test } from "bun:test";
import { Cache } from "./cache.ts";

test("a value is created once and returned from then on", () => {
  const cache = new Cache<string, number>({ name: "lengths", entriesMax: 2 });
  let created = 0;
  const create = (key: string) => {
    created += 1;
    return key.length;
  };
  expect([cache.getOrCreate("four", create), cache.getOrCreate("four", create)]).toEqual([4, 4]);
  expect(created).toBe(1);
});

test("a null is a value", () => {
  const cache = new Cache<string, null>({ name: "nulls", entriesMax: 2 });
  cache.set("a", null);
  expect(cache.get("a")).toBeNull();
});

test("a full cache drops all entries for a new key, and none for a known one", () => {
  const cache = new Cache<string, number>({ name: "numbers", entriesMax: 2 });
  cache.set("a", 1);
  cache.set("b", 2);
  cache.set("a", 3);
  expect([cache.get("a"), cache.get("b")]).toEqual([3, 2]);
  cache.set("c", 4);
  expect([cache.get("a"), cache.get("b"), cache.get("c"), cache.size]).toEqual([undefined, undefined, 4, 1]);
});
