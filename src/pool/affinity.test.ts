import { describe, expect, test } from "bun:test";
import { findHome, type HomeAccount, hashAffinity, openHomeAccounts } from "./affinity.ts";

interface Named extends HomeAccount {
  id: string;
}

const named = (id: string, weight = 1): Named => ({ id, seed: hashAffinity(id), weight });
const homes = (count: number) => Array.from({ length: count }, (_, i) => named(`account-${i}`));
const CONVERSATIONS = Array.from({ length: 1_000 }, (_, i) => hashAffinity(`key_1 conversation ${i}`));
const all = () => true;

const settled = (among: readonly Named[], isOpenTo: (home: Named) => boolean = all) =>
  CONVERSATIONS.map((conversation) => findHome(among, conversation, isOpenTo)?.id);

const countLike = <T>(list: readonly T[], like: (item: T, i: number) => boolean) => list.filter(like).length;

describe("the home account of a conversation", () => {
  test("does not depend on the order of the accounts", () => {
    expect(settled(homes(10).reverse())).toEqual(settled(homes(10)));
  });

  test("is spread evenly over equal accounts", () => {
    const found = settled(homes(10));
    for (const { id } of homes(10)) {
      const count = countLike(found, (home) => home === id);
      expect(count).toBeGreaterThan(70);
      expect(count).toBeLessThan(130);
    }
  });

  test("is spread by weight", () => {
    const found = settled([named("light", 1), named("heavy", 4)]);
    const heavy = countLike(found, (home) => home === "heavy");
    expect(heavy).toBeGreaterThan(760);
    expect(heavy).toBeLessThan(840);
  });

  test("changes for at most 15 % when an eleventh account joins ten, and only to that one", () => {
    const [before, after] = [settled(homes(10)), settled(homes(11))];
    const moved = after.filter((home, i) => home !== before[i]);
    expect(moved.length).toBeGreaterThan(0);
    expect(moved.length).toBeLessThanOrEqual(150);
    expect(new Set(moved)).toEqual(new Set(["account-10"]));
  });

  test("changes only for conversations of a failed account, to all other accounts", () => {
    const before = settled(homes(10));
    const after = settled(homes(10), ({ id }) => id !== "account-3");
    const moved = after.filter((home, i) => home !== before[i]);
    expect(moved.length).toBe(countLike(before, (home) => home === "account-3"));
    expect(new Set(moved).size).toBe(9);
  });

  test("is null when no account is available", () => {
    expect(findHome(homes(3), hashAffinity("x"), () => false)).toBeNull();
    expect(findHome([], hashAffinity("x"), all)).toBeNull();
  });
});

describe("the cache of home accounts", () => {
  const [list, other] = [homes(2), homes(2)];
  const first = named("first");

  test("stores a home account per list of accounts", () => {
    const book = openHomeAccounts<Named>(10);
    book.set("c", list, first);
    expect(book.find("c", list)).toBe(first);
    expect(book.find("c", other)).toBeNull();
    expect(book.find("d", list)).toBeNull();
    book.clear();
    expect(book.find("c", list)).toBeNull();
  });

  test("evicts unused entries and keeps used ones", () => {
    const book = openHomeAccounts<Named>(10);
    book.set("used", list, first);
    book.set("unused", list, first);
    for (let i = 0; i < 30; i++) {
      book.set(`c${i}`, list, first);
      expect(book.find("used", list)).toBe(first);
    }
    expect(book.find("unused", list)).toBeNull();
  });
});
