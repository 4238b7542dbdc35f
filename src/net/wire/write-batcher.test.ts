import { expect, test } from "bun:test";
import { type BatchedWriter, WriteBatcher } from "./write-batcher.ts";

function open() {
  const turns: (() => void)[] = [];
  const written: string[] = [];
  const box = new WriteBatcher((work) => turns.push(work));
  const to = (name: string, then?: () => void): BatchedWriter => ({
    send(bytes, from, end) {
      written.push(`${name} ${Buffer.from(bytes).toString("latin1", from, end)}`);
      then?.();
    },
  });
  const post = (addressee: BatchedWriter, text: string): boolean => {
    const at = box.reserve(text.length);
    if (at >= 0) box.add(addressee, at + box.bytes.write(text, at, "latin1"));
    return at >= 0;
  };
  const endTurn = () => {
    for (const work of turns.splice(0)) work();
  };
  return { box, written, to, post, endTurn, turns };
}

test("writes are sent at the end of the turn, in order, with one scheduled callback", () => {
  const { to, post, endTurn, written, turns } = open();
  const ada = to("ada");
  for (let turn = 0; turn < 3; turn++) {
    post(ada, "one");
    post(to("bob"), "");
    post(ada, "two");
    expect(turns).toHaveLength(1);
    expect(written.splice(0)).toEqual([]);
    endTurn();
    expect(written.splice(0)).toEqual(["ada one", "bob ", "ada two"]);
  }
  endTurn();
  expect(written).toEqual([]);
});

test("flush sends the pending writes at once", () => {
  const { box, to, post, endTurn, written } = open();
  post(to("ada"), "one");
  box.flush();
  expect(written).toEqual(["ada one"]);
  post(to("ada"), "two");
  endTurn();
  expect(written).toEqual(["ada one", "ada two"]);
});

test("pending writes are sent early when the buffer is full", () => {
  const { to, post, endTurn, written } = open();
  const text = "x".repeat(16 * 1024);
  for (let i = 0; i < 65; i++) expect(post(to(`${i}`), text)).toBe(true);
  expect(written).toHaveLength(64);
  endTurn();
  expect(written.map((line) => line.split(" ")[0])).toEqual(Array.from({ length: 65 }, (_, i) => `${i}`));
});

test("most writes are not batched while batches have a single write", () => {
  const { to, post, endTurn, written } = open();
  const taken: boolean[] = [];
  for (let turn = 0; turn < 107; turn++) {
    taken.push(post(to("ada"), "one"));
    endTurn();
  }
  expect(taken.filter(Boolean)).toHaveLength(6);
  expect(taken.slice(0, 4)).toEqual([true, true, true, false]);
  expect(written).toHaveLength(6);
});

test("writes stay batched while most batches have several writes", () => {
  const { to, post, endTurn } = open();
  for (let turn = 0; turn < 50; turn++) {
    for (let i = turn % 3; i < 3; i++) expect(post(to("ada"), "one")).toBe(true);
    endTurn();
  }
});

test("a long write is not batched", () => {
  const { to, post, written } = open();
  expect(post(to("ada"), "x".repeat(16 * 1024 + 1))).toBe(false);
  expect(written).toEqual([]);
});

test("writes and flushes from within a send lose and corrupt no write", () => {
  const { box, to, post, endTurn, written } = open();
  const ada: BatchedWriter = {
    send(bytes, from, end) {
      post(to("cyd"), "three");
      box.flush();
      post(to("dan"), "four");
      written.push(`ada ${Buffer.from(bytes).toString("latin1", from, end)}`);
    },
  };
  post(ada, "one");
  post(to("bob"), "two");
  endTurn();
  endTurn();
  expect(written).toEqual(["bob two", "cyd three", "ada one", "dan four"]);
});

test("a write during a flush is rejected if the buffer is full", () => {
  const { to, post, endTurn, written } = open();
  const text = "x".repeat(16 * 1024);
  const found: boolean[] = [];
  post(
    to("first", () => void found.push(post(to("late"), text))),
    text,
  );
  for (let i = 1; i < 64; i++) post(to("more"), text);
  endTurn();
  expect([found, written.length]).toEqual([[false], 64]);
});

test("a writer that throws does not affect the other writes", () => {
  const { to, post, endTurn, written } = open();
  post(
    to("ada", () => {
      throw new Error("gone");
    }),
    "one",
  );
  post(to("bob"), "two");
  endTurn();
  expect(written).toEqual(["ada one", "bob two"]);
  expect(endTurn).toThrow("gone");
});
