/** A request that lacks something, and the order in which replies and notes arrive. */

import { expect, test } from "bun:test";
import { nodeLimits } from "../../config/limits/node-limits.ts";
import { NO_LIMITS } from "../../records/limits.ts";
import { NO_AMOUNTS } from "../amounts.ts";
import { BorrowedSubject } from "./borrowed-record.ts";
import { Borrowing } from "./borrowing.ts";

const LINK = {
  noteChange() {},
  noteUrgent() {},
  sendSoon() {},
  isPending: () => false,
  isValid: () => true,
  loss: null,
  contactNo: 1,
};

function openPart() {
  const services = { findLink: () => LINK, revision: () => 1 };
  const subject = new BorrowedSubject(
    { scope: "key", id: "k", limits: { ...NO_LIMITS, tpm: 100 } },
    services,
  );
  const outcomes: string[] = [];
  const borrowing = new Borrowing(
    {
      key: "k",
      subjects: [subject],
      slots: "needed",
      amounts: { ...NO_AMOUNTS, tokens: 50 },
      leastNano: 0,
      attempt: () => false,
    },
    {
      timing: nodeLimits.limitBorrower,
      timers: { after: () => () => {} },
      onEnd: (outcome) => outcomes.push(outcome),
    },
  );
  const [part] = borrowing.parts;
  if (part === undefined) throw new Error("there is no part");
  return { part, outcomes };
}

test.each([
  ["final", "final"],
  ["grant", "wait"],
] as const)("a note %s that arrives before the reply to its ask is not lost", (note, mode) => {
  const { part } = openPart();
  expect(part.buildAsk(() => 0)?.mode).toBe("wait");
  part.wake(note);
  part.onResult({ kind: "waiting", lacks: 0 }, 0);
  part.askAgain();
  expect(part.isNew).toBe(true);
  expect(part.buildAsk(() => 0)?.mode).toBe(mode);
});

test("without a note the request waits for the others to return what they hold", () => {
  const { part } = openPart();
  part.buildAsk(() => 0);
  part.onResult({ kind: "waiting", lacks: 0 }, 0);
  part.askAgain();
  expect(part.isNew).toBe(false);
});
