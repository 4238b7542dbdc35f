import { expect, test } from "bun:test";
import fc from "fast-check";
import { measureSlowdown } from "../../../test/support/machine-speed.ts";
import { type StoredConversation, StoredConversations } from "./stored-conversations.ts";

const LIMITS = { storedConversationBytesMax: 1_000, storedConversationKeyBytesMax: 400 };

function conversation(responseId: string, keyId: string, memoryBytes: number): StoredConversation {
  const record = {
    responseId,
    keyId,
    memoryBytes,
    previousId: null,
    owner: keyId,
    atMs: 0,
    tokens: null,
    turn: Buffer.from("{}\n[]\n[]"),
  };
  return { record, turns: [record.turn] };
}

test("a conversation is found by its key only", () => {
  const stored = new StoredConversations(LIMITS);
  stored.add(conversation("resp_1", "a", 10));
  expect(stored.find("resp_1", "a")).not.toBeNull();
  expect(stored.find("resp_1", "b")).toBeNull();
});

test("the conversation that was not used for the longest time is dropped first", () => {
  const stored = new StoredConversations(LIMITS);
  stored.add(conversation("resp_1", "a", 150));
  stored.add(conversation("resp_2", "a", 150));
  stored.find("resp_1", "a");
  stored.add(conversation("resp_3", "a", 150));
  expect(["resp_1", "resp_2", "resp_3"].map((id) => stored.find(id, "a") !== null)).toEqual([
    true,
    false,
    true,
  ]);
});

test("a conversation above the share of its key is not kept, and drops no other", () => {
  const stored = new StoredConversations(LIMITS);
  stored.add(conversation("resp_1", "a", 100));
  stored.add(conversation("resp_2", "a", 401));
  expect(stored.find("resp_2", "a")).toBeNull();
  expect(stored.find("resp_1", "a")).not.toBeNull();
});

test("the memory stays within the limits, in total and for each key", () => {
  const additions = fc.array(fc.tuple(fc.constantFrom("a", "b", "c", "d"), fc.nat(500)), { maxLength: 50 });
  fc.assert(
    fc.property(additions, (list) => {
      const stored = new StoredConversations(LIMITS);
      list.forEach(([keyId, bytes], at) => {
        stored.add(conversation(`resp_${at}`, keyId, bytes));
      });
      expect(stored.bytes).toBeLessThanOrEqual(LIMITS.storedConversationBytesMax);
      const kept = list.flatMap(([keyId], at) => stored.find(`resp_${at}`, keyId) ?? []);
      expect(kept.reduce((sum, { record }) => sum + record.memoryBytes, 0)).toBe(stored.bytes);
      for (const key of ["a", "b", "c", "d"]) {
        const bytes = kept
          .filter(({ record }) => record.keyId === key)
          .reduce((sum, { record }) => sum + record.memoryBytes, 0);
        expect(bytes).toBeLessThanOrEqual(LIMITS.storedConversationKeyBytesMax);
      }
    }),
  );
});

test("a removed conversation is unknown and frees its memory, and another key cannot remove it", () => {
  const stored = new StoredConversations(LIMITS);
  stored.add(conversation("resp_1", "a", 100));
  expect(stored.remove("resp_1", "b")).toBe(false);
  expect(stored.remove("resp_1", "a")).toBe(true);
  expect([stored.find("resp_1", "a"), stored.bytes]).toEqual([null, 0]);
});

test("the conversations of a key are dropped without a search among those of other keys", () => {
  const stored = new StoredConversations({
    storedConversationBytesMax: 1_000_000,
    storedConversationKeyBytesMax: 100_000,
  });
  for (let i = 0; i < 80_000; i++) stored.add(conversation(`resp_a${i}`, `key_${i % 8}`, 10));
  for (let i = 0; i < 4_000; i++) stored.add(conversation(`resp_b${i}`, "b", 25));
  const slowdown = measureSlowdown();
  const before = process.threadCpuUsage();
  stored.add(conversation("resp_long", "b", 100_000));
  const { user, system } = process.threadCpuUsage(before);
  expect(stored.bytes).toBe(900_000);
  // The search took seconds.
  expect((user + system) / 1_000).toBeLessThan(50 * slowdown);
});
