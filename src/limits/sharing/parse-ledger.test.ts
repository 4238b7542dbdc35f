/** Only a complete ledger is one. */

import { expect, test } from "bun:test";
import { exchange, type Ledger } from "./ledger.ts";
import { parseLedger as parseUpTo } from "./parse-ledger.ts";

const CHARS_MAX = 100_000;
const parseLedger = (text: string) => parseUpTo(text, CHARS_MAX);
const TIMING = { lostAfterMs: 5_000, removedAfterMs: 70_000, leftAfterMs: 61_000 };

function createLedger(): Ledger {
  const request = {
    known: null,
    stage: 0 as const,
    rows: {},
    candidates: ["a", "b"],
    seen: null,
    ended: [],
    registered: null,
    write: 1,
    confirmedWrite: 0,
    intent: "take_part" as const,
  };
  const options = { nowMs: 1_000, newEpoch: () => "e1", timing: TIMING };
  const { ledger } = exchange(null, { ...request, node: "a" }, options);
  const known = { epoch: ledger.epoch, version: ledger.version };
  const rows = { "rpm key k": { delta: -1, wish: 2, need: 1, deficit: 0, limit: 30 } };
  const second = exchange(ledger, { ...request, node: "b", known, stage: 2, rows }, options).ledger;
  // A third node makes the first ones keep their earlier terms.
  const third = exchange(second, { ...request, node: "c" }, options).ledger;
  return { ...third, meters: second.meters };
}

test("what a node writes is read back unchanged", () => {
  const ledger = createLedger();
  expect(ledger.nodes.b?.earlier).not.toBeNull();
  expect(parseLedger(JSON.stringify(ledger))).toEqual(ledger);
});

/** Every member of the value, at every depth. */
function* listPaths(value: unknown, path: readonly string[] = []): Generator<readonly string[]> {
  if (typeof value !== "object" || value === null) return;
  for (const [name, member] of Object.entries(value)) {
    yield [...path, name];
    yield* listPaths(member, [...path, name]);
  }
}

function change(
  ledger: Ledger,
  path: readonly string[],
  edit: (holder: object, name: string) => void,
): string {
  const copy: object = structuredClone(ledger);
  const holder = path.slice(0, -1).reduce((at, name) => Reflect.get(at, name), copy);
  edit(holder, path.at(-1) ?? "");
  return JSON.stringify(copy);
}

test("a ledger in which any member has another type counts as lost", () => {
  const ledger = createLedger();
  for (const path of listPaths(ledger)) {
    for (const wrong of [[1], { x: [] }]) {
      const text = change(ledger, path, (holder, name) => Reflect.set(holder, name, wrong));
      expect([path, wrong, parseLedger(text)]).toEqual([path, wrong, null]);
    }
  }
});

test("a document that is no ledger counts as lost", () => {
  const texts = ["", "x", "null", "[]", "1", '"ledger"', "{}", '{"format":1}', '{"format":2,"members":[]}'];
  for (const text of texts) expect([text, parseLedger(text)]).toEqual([text, null]);
  for (const path of [["epoch"], ["members"], ["nodes"], ["meters"], ["nodes", "a", "beatMs"]])
    expect(
      parseLedger(change(createLedger(), path, (holder, name) => Reflect.deleteProperty(holder, name))),
    ).toBeNull();
  expect(parseLedger(JSON.stringify(createLedger()).padEnd(CHARS_MAX + 1))).toBeNull();
  expect(parseLedger(JSON.stringify(createLedger()).replace('"limit":30', '"limit":1e999'))).toBeNull();
});
