import { expect, test } from "bun:test";
import { type BatchedWriter, WriteBatcher } from "./write-batcher.ts";

function open() {
  const turns: (() => void)[] = [];
  const heard: string[] = [];
  const box = new WriteBatcher((work) => turns.push(work));
  const to = (name: string, then?: () => void): BatchedWriter => ({
    send(bytes, from, end) {
      heard.push(`${name} ${Buffer.from(bytes).toString("latin1", from, end)}`);
      then?.();
    },
  });
  const post = (addressee: BatchedWriter, text: string): boolean => {
    const at = box.roomFor(text.length);
    if (at >= 0) box.post(addressee, at + box.bytes.write(text, at, "latin1"));
    return at >= 0;
  };
  const endTurn = () => {
    for (const work of turns.splice(0)) work();
  };
  return { box, heard, to, post, endTurn, turns };
}

test("letters leave at the end of the turn, in order, and it is asked for once", () => {
  const { to, post, endTurn, heard, turns } = open();
  const ada = to("ada");
  for (let turn = 0; turn < 3; turn++) {
    post(ada, "one");
    post(to("bob"), "");
    post(ada, "two");
    expect(turns).toHaveLength(1);
    expect(heard.splice(0)).toEqual([]);
    endTurn();
    expect(heard.splice(0)).toEqual(["ada one", "bob ", "ada two"]);
  }
  endTurn();
  expect(heard).toEqual([]);
});

test("they leave at once for whoever cannot wait", () => {
  const { box, to, post, endTurn, heard } = open();
  post(to("ada"), "one");
  box.flush();
  expect(heard).toEqual(["ada one"]);
  post(to("ada"), "two");
  endTurn();
  expect(heard).toEqual(["ada one", "ada two"]);
});

test("when there is no more room they leave before their time", () => {
  const { to, post, endTurn, heard } = open();
  const text = "x".repeat(16 * 1024);
  for (let i = 0; i < 65; i++) expect(post(to(`${i}`), text)).toBe(true);
  expect(heard).toHaveLength(64);
  endTurn();
  expect(heard.map((line) => line.split(" ")[0])).toEqual(Array.from({ length: 65 }, (_, i) => `${i}`));
});

test("where letters leave alone, most of them need not wait", () => {
  const { to, post, endTurn, heard } = open();
  const taken: boolean[] = [];
  for (let turn = 0; turn < 107; turn++) {
    taken.push(post(to("ada"), "one"));
    endTurn();
  }
  expect(taken.filter(Boolean)).toHaveLength(6);
  expect(taken.slice(0, 4)).toEqual([true, true, true, false]);
  expect(heard).toHaveLength(6);
});

test("letters that leave in company go on doing so, whoever left alone in between", () => {
  const { to, post, endTurn } = open();
  for (let turn = 0; turn < 50; turn++) {
    for (let i = turn % 3; i < 3; i++) expect(post(to("ada"), "one")).toBe(true);
    endTurn();
  }
});

test("a long one is not taken", () => {
  const { to, post, heard } = open();
  expect(post(to("ada"), "x".repeat(16 * 1024 + 1))).toBe(false);
  expect(heard).toEqual([]);
});

test("what is posted, or asked to leave, while one is handed over comes after it, and spoils none", () => {
  const { box, to, post, endTurn, heard } = open();
  const ada: BatchedWriter = {
    send(bytes, from, end) {
      post(to("cyd"), "three");
      box.flush();
      post(to("dan"), "four");
      heard.push(`ada ${Buffer.from(bytes).toString("latin1", from, end)}`);
    },
  };
  post(ada, "one");
  post(to("bob"), "two");
  endTurn();
  endTurn();
  expect(heard).toEqual(["bob two", "cyd three", "ada one", "dan four"]);
});

test("while letters leave there may be no room for more", () => {
  const { to, post, endTurn, heard } = open();
  const text = "x".repeat(16 * 1024);
  const found: boolean[] = [];
  post(
    to("first", () => void found.push(post(to("late"), text))),
    text,
  );
  for (let i = 1; i < 64; i++) post(to("more"), text);
  endTurn();
  expect([found, heard.length]).toEqual([[false], 64]);
});

test("one that throws keeps none of the others", () => {
  const { to, post, endTurn, heard } = open();
  post(
    to("ada", () => {
      throw new Error("gone");
    }),
    "one",
  );
  post(to("bob"), "two");
  endTurn();
  expect(heard).toEqual(["ada one", "bob two"]);
  expect(endTurn).toThrow("gone");
});
