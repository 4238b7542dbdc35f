import { expect, test } from "bun:test";
import fc from "fast-check";
import { NO_LONG_STRINGS } from "./long-strings.ts";
import { type HubConversation, StoredConversations } from "./stored-conversations.ts";

const LIMITS = { storedConversationBytesMax: 1_000, storedConversationKeyBytesMax: 400 };

function conversation(keyId: string, bytes: number): HubConversation {
  return { keyId, instructions: [], items: [], longStrings: NO_LONG_STRINGS, tokens: null, bytes };
}

test("a conversation is found by its key only", () => {
  const stored = new StoredConversations(LIMITS);
  stored.add("resp_1", conversation("a", 10));
  expect(stored.find("resp_1", "a")).not.toBeNull();
  expect(stored.find("resp_1", "b")).toBeNull();
});

test("the conversation that was not used for the longest time is dropped first", () => {
  const stored = new StoredConversations(LIMITS);
  stored.add("resp_1", conversation("a", 150));
  stored.add("resp_2", conversation("a", 150));
  stored.find("resp_1", "a");
  stored.add("resp_3", conversation("a", 150));
  expect(["resp_1", "resp_2", "resp_3"].map((id) => stored.find(id, "a") !== null)).toEqual([
    true,
    false,
    true,
  ]);
});

test("a conversation above the share of its key is not kept, and drops no other", () => {
  const stored = new StoredConversations(LIMITS);
  stored.add("resp_1", conversation("a", 100));
  stored.add("resp_2", conversation("a", 401));
  expect(stored.find("resp_2", "a")).toBeNull();
  expect(stored.find("resp_1", "a")).not.toBeNull();
});

test("the memory stays within the limits, in total and for each key", () => {
  const additions = fc.array(fc.tuple(fc.constantFrom("a", "b", "c", "d"), fc.nat(500)), { maxLength: 50 });
  fc.assert(
    fc.property(additions, (list) => {
      const stored = new StoredConversations(LIMITS);
      list.forEach(([keyId, bytes], at) => {
        stored.add(`resp_${at}`, conversation(keyId, bytes));
      });
      expect(stored.bytes).toBeLessThanOrEqual(LIMITS.storedConversationBytesMax);
      const kept = list.flatMap(([keyId], at) => stored.find(`resp_${at}`, keyId) ?? []);
      expect(kept.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(stored.bytes);
      for (const key of ["a", "b", "c", "d"]) {
        const bytes = kept.filter(({ keyId }) => keyId === key).reduce((sum, one) => sum + one.bytes, 0);
        expect(bytes).toBeLessThanOrEqual(LIMITS.storedConversationKeyBytesMax);
      }
    }),
  );
});
