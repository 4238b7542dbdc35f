import { expect, test } from "bun:test";
import { eventually } from "../../../test/support/eventually.ts";
import { type ClaimEnd, openPendingClaimEnds } from "./pending-claim-ends.ts";

const claim = (requestId: string) => ({ scope: "key_1", token: requestId, fingerprint: "f", requestId });
const respond = (bytes: number) => ({
  status: 200,
  contentType: "application/json",
  body: "x".repeat(bytes),
});

function setUp() {
  const clock = { nowMs: 0 };
  const store = { isAway: true, tries: 0 };
  const recorded: [requestId: string, end: ClaimEnd][] = [];
  const ends = openPendingClaimEnds(
    async ({ requestId }, end) => {
      store.tries++;
      if (store.isAway) throw new Error("away");
      recorded.push([requestId, end]);
    },
    () => clock.nowMs,
    1,
  );
  return { clock, store, recorded, ends };
}

test("late results are recorded in order, each once, when the database is back", async () => {
  const { store, recorded, ends } = setUp();
  ends.add(claim("req_1"), respond(10));
  ends.add(claim("req_2"), "forget");
  await eventually(() => store.tries >= 2);
  expect(recorded).toEqual([]);
  store.isAway = false;
  await eventually(() => recorded.length, { equals: 2 });
  ends.add(claim("req_3"), null);
  await eventually(() => recorded.length, { equals: 3 });
  expect(recorded).toEqual([
    ["req_1", respond(10)],
    ["req_2", "forget"],
    ["req_3", null],
  ]);
});

test("a result that is too old is dropped and does not block later ones", async () => {
  const { clock, store, recorded, ends } = setUp();
  ends.add(claim("req_1"), null);
  await eventually(() => store.tries >= 1);
  clock.nowMs += 60 * 60_000 + 1;
  const tries = store.tries;
  await eventually(() => store.tries > tries);
  store.isAway = false;
  ends.add(claim("req_2"), null);
  await eventually(() => recorded.length, { equals: 1 });
  expect(recorded).toEqual([["req_2", null]]);
});

test("above the memory limit, a result is kept without its response", async () => {
  const { store, recorded, ends } = setUp();
  const large = respond(10 * 1024 * 1024);
  ends.add(claim("req_1"), large);
  ends.add(claim("req_2"), large);
  store.isAway = false;
  await eventually(() => recorded.length, { equals: 2 });
  expect(recorded.map(([, end]) => end === null)).toEqual([false, true]);
});
