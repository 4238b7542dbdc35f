import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { type LaneMemory, openMemoryPool, type RememberedTurns } from "./lane-memory.ts";

const kept = (responseId: string, bytes: number): RememberedTurns => ({
  responseId,
  pieces: [{ json: new Uint8Array(bytes), calls: new Set() }],
  bytes,
});
const sum = (entries: readonly { bytes: number }[]) => entries.reduce((total, { bytes }) => total + bytes, 0);
const POOL = { bytesMax: 1_000, keyBytesMax: 1_000, connectionBytesMax: 100 };

describe("the memory of a connection", () => {
  test("keeps the last response of each lane", () => {
    const memory = openMemoryPool(POOL).open("key");
    memory.store("a", kept("a1", 10));
    memory.store("b", kept("b1", 10));
    memory.store("a", kept("a2", 10));
    expect(["a1", "a2", "b1"].map((id) => memory.find(id)?.responseId ?? null)).toEqual([null, "a2", "b1"]);
  });

  test("evicts its oldest lane above the limit, and keeps nothing that exceeds it alone", () => {
    const memory = openMemoryPool(POOL).open("key");
    memory.store("a", kept("a1", 60));
    memory.store("b", kept("b1", 60));
    expect([memory.find("a1"), memory.find("b1")?.responseId ?? null]).toEqual([null, "b1"]);
    memory.store("b", kept("b2", 101));
    expect([memory.find("b1"), memory.find("b2")]).toEqual([null, null]);
  });
});

test("the memory of all connections is limited, and the least recently used evicts first", () => {
  const pool = openMemoryPool({ ...POOL, bytesMax: 100 });
  const [first, second, third] = [pool.open("a"), pool.open("b"), pool.open("a")];
  first?.store("", kept("1", 40));
  second?.store("", kept("2", 40));
  first?.store("", kept("1b", 40));
  third?.store("", kept("3", 40));
  expect([first?.find("1b") !== null, second?.find("2"), third?.find("3") !== null]).toEqual([
    true,
    null,
    true,
  ]);
});

test("a key above its limit evicts its own oldest conversation only", () => {
  const pool = openMemoryPool({ ...POOL, bytesMax: 200, keyBytesMax: 100 });
  const other = pool.open("other");
  other.store("", kept("other", 60));
  const mine = [1, 2, 3, 4].map((number) => {
    const memory = pool.open("mine");
    memory.store("", kept(`mine ${number}`, 50));
    return memory;
  });
  expect(other.find("other")).not.toBeNull();
  expect(mine.map((memory, i) => memory.find(`mine ${i + 1}`) !== null)).toEqual([false, false, true, true]);
});

test("the counted bytes always match the stored bytes", () => {
  const step = fc.record({
    at: fc.nat(2),
    lane: fc.constantFrom("a", "b"),
    does: fc.constantFrom("keep", "keep", "keep", "forget", "clear", "keep nothing"),
    bytes: fc.nat(120),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const pool = openMemoryPool({ bytesMax: 200, keyBytesMax: 150, connectionBytesMax: 100 });
      const memories: LaneMemory[] = [pool.open("a"), pool.open("a"), pool.open("b")];
      const ids: { memory: LaneMemory; id: string }[] = [];
      for (const [i, { at, lane, does, bytes }] of steps.entries()) {
        const memory = memories[at];
        if (memory === undefined) continue;
        if (does === "keep") {
          memory.store(lane, kept(`r${i}`, bytes));
          ids.push({ memory, id: `r${i}` });
        } else if (does === "keep nothing") memory.store(lane, null);
        else if (does === "clear") memory.clear();
        else memory.forget(ids.at(-1)?.id ?? "");
        const found = ids.flatMap((entry) => {
          const kept = entry.memory.find(entry.id);
          return kept === null ? [] : [{ isOfA: entry.memory !== memories[2], bytes: kept.bytes }];
        });
        expect(pool.bytes).toBe(sum(found));
        expect(pool.bytes).toBeLessThanOrEqual(200);
        expect(sum(found.filter(({ isOfA }) => isOfA))).toBeLessThanOrEqual(150);
      }
    }),
  );
});
