import { expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { UNSENT } from "../../store/money/holds.ts";
import { usageRow } from "../../store/usage/usage-row.test-support.ts";
import type { UsageRow } from "../../store/usage/usage-row.ts";
import { buildHold, type HoldRequest } from "../engine/booking.ts";
import { asking, settling, TARIFF } from "../engine/direct-billing.test-support.ts";
import { newReservation } from "../write-behind/wallet-reservations.ts";
import { type Journal, openJournal } from "./journal.ts";
import { listOrphanedJournals } from "./left-journals.ts";

const SEGMENT_BYTES = 100_000;
const newFolder = () => mkdtempSync(join(tmpdir(), "gateway-journal-"));
/** All of one wallet, as is usual. */
const lease = newReservation("u1", 1n);
const held = (requestId: string) => ({ asked: asking(requestId), atMs: 1_000, lease });
const holding = (requestId: string) =>
  buildHold(asking(requestId), { amountNano: 100n, subscriptionId: null }, "inc_1", 1_000);

function left(dir: string) {
  const [journal] = listOrphanedJournals(dir, () => false);
  if (journal === undefined) throw new Error("There is no journal.");
  return journal;
}

/** The content of a journal in short form. */
function toldBy(dir: string) {
  const { open, settlements, rows, unreadable } = left(dir);
  return {
    open: open.map(({ requestId, state }) => `${requestId} ${state}`),
    ended: settlements.map(({ row, chargedNano }) => `${row.requestId} ${chargedNano}`),
    rows: rows.map(({ requestId, publicModel }) => `${requestId} ${publicModel}`),
    unreadable,
  };
}

/** A row whose columns all have different values, as far as possible. */
const FULL: UsageRow = usageRow({
  requestId: "r1",
  atMs: 2_000,
  keyId: "k1",
  userId: "u1",
  accountId: "acc_1",
  upstreamModel: "gpt",
  stream: true,
  status: 418,
  outcome: "upstream_cut",
  errorCode: 'odd \u0000 \n "code" ü',
  inputTokens: 11,
  cachedTokens: 12,
  cacheWriteTokens: 13,
  outputTokens: 14,
  reasoningTokens: 15,
  imageInputTokens: 16,
  audioInputTokens: 17,
  audioOutputTokens: 18,
  images: 19,
  usageSource: "partial",
  attempts: 20,
  firstByteMs: 21,
  durationMs: 22,
  waitMs: 23,
  responseId: "resp_1",
  upstreamRequestId: "up_1",
  trace: '{"a":["b"]}',
  costNano: 2n ** 60n + 1n,
  chargedNano: 31n,
  upstreamNano: 32n,
  payer: "balance",
  tariffId: TARIFF.id,
  flags: ["partial", "overrun"],
});

test("a request that ended is told with all that its row has", () => {
  const dir = newFolder();
  const journal = openJournal(dir, "inc_1", SEGMENT_BYTES);
  journal.held(held("r1"));
  journal.settled(FULL);
  expect(left(dir).settlements).toEqual([{ row: FULL, chargedNano: 31n }]);
});

test("a row that nobody pays for is told with all that it has", () => {
  const dir = newFolder();
  const journal = openJournal(dir, "inc_1", SEGMENT_BYTES);
  const rows = [FULL, usageRow({ requestId: "r2" }), { ...FULL, requestId: "r3", inputTokens: 99 }];
  for (const row of rows) journal.recorded(row);
  expect(left(dir).rows).toEqual(rows);
  expect(left(dir)).toMatchObject({ settlements: [], torn: 0, unreadable: 0 });
});

test("rows that have everything but one column in common are told apart", () => {
  const dir = newFolder();
  const journal = openJournal(dir, "inc_1", SEGMENT_BYTES);
  const changes: Partial<UsageRow>[] = [
    { groupId: "g2" },
    { publicModel: "m2" },
    { upstreamModel: "gpt2" },
    { endpoint: "responses" },
    { interface: "responses" },
    { stream: false },
    { status: 200 },
    { outcome: "failed" },
    { errorCode: null },
    { usageSource: "none" },
    { attempts: 2 },
    { payer: null },
    { tariffId: null },
    { flags: [] },
    { keyId: "k2", userId: null, accountId: null },
  ];
  const rows = changes.map((change, index) => ({ ...FULL, ...change, requestId: `other ${index}` }));
  for (const row of [FULL, ...rows]) journal.recorded(row);
  expect(left(dir).rows).toEqual([FULL, ...rows]);
});

test("however many kinds of rows there are, and however many segments, each row is told as it was", () => {
  const dir = newFolder();
  const journal = openJournal(dir, "inc_1", 4_000);
  const rows = Array.from({ length: 300 }, (_, index) =>
    usageRow({ publicModel: `m${(index * 7) % 50}`, inputTokens: index }),
  );
  const segments = rows.map((row) => journal.recorded(row));
  expect(new Set(segments).size).toBeGreaterThan(3);
  expect(left(dir)).toMatchObject({ rows, torn: 0, unreadable: 0 });
  // Each segment can be read without the earlier ones.
  const last = segments.at(-1) ?? 0;
  journal.forgetBefore(last);
  expect(left(dir).rows).toEqual(rows.filter((_, index) => segments[index] === last));
});

test("wherever the process dies, whole lines count and the one it was writing does not", () => {
  const dir = newFolder();
  const journal = openJournal(dir, "inc_1", SEGMENT_BYTES);
  const steps: ((journal: Journal) => void)[] = [
    (to) => to.held(held("ü1")),
    (to) => to.progressed({ progress: { ...UNSENT, accountId: "a" }, requestIds: ["r0", "ü1"] }),
    (to) => to.held(held("r2")),
    (to) => to.recorded(usageRow({ requestId: "free 1", publicModel: "€" })),
    (to) => to.recorded(usageRow({ requestId: "free 2", publicModel: "€" })),
    (to) => to.settled(settling("ü1", 30n).row),
    (to) => to.recorded(usageRow({ requestId: "free 3" })),
  ];
  const path = join(dir, "journal-inc_1.1.jsonl");
  /** After each step: the length of the text, and its content. */
  const states = steps.map((step) => {
    step(journal);
    return { end: readFileSync(path).indexOf(0), told: toldBy(dir) };
  });
  const nothing = { open: [], ended: [], rows: [], unreadable: 0 };
  const whole = readFileSync(path);
  const text = whole.subarray(0, whole.indexOf(0));
  for (let cut = 0; cut <= text.length; cut++) {
    writeFileSync(path, Buffer.concat([text.subarray(0, cut), Buffer.alloc(100)]));
    const { told } = states.findLast(({ end }) => end <= cut) ?? { told: nothing };
    expect(toldBy(dir)).toEqual(told);
  }
  // Its bytes may have been written in any order.
  const [before, last] = states.slice(-2);
  if (before === undefined || last === undefined) throw new Error("There are several steps.");
  for (let gap = before.end; gap < last.end; gap++) {
    const torn = Buffer.from(whole);
    torn[gap] = 0;
    writeFileSync(path, torn);
    expect(toldBy(dir)).toEqual(before.told);
  }
});

test("what does not fit into a segment goes to the next one, however long it is", () => {
  const dir = newFolder();
  const journal = openJournal(dir, "inc_1", 350);
  const segments = Array.from({ length: 20 }, (_, index) => journal.held(held(`r${index}`)));
  const trace = JSON.stringify("€".repeat(5_000));
  journal.settled({ ...settling("r0", 1n).row, trace });
  journal.settled(settling("r1", 2n).row);
  expect(new Set(segments).size).toBeGreaterThan(2);
  expect(readdirSync(dir).length).toBeGreaterThan(new Set(segments).size);
  const { open, settlements, torn } = left(dir);
  expect(open.length).toBe(18);
  expect(settlements.map(({ row }) => row.trace)).toEqual([trace, null]);
  expect(torn).toBe(0);
});

test("an end is told whole, also where its beginning was thrown away: whether it is booked the store knows", () => {
  const dir = newFolder();
  const journal = openJournal(dir, "inc_1", 700);
  journal.held(held("booked"));
  let segment = 1;
  while (segment === 1) segment = journal.held(held(`open ${readdirSync(dir).length} ${Bun.nanoseconds()}`));
  journal.settled(settling("booked", 30n).row);
  expect(toldBy(dir).ended).toEqual(["booked 30"]);
  expect(journal.hasBefore(segment)).toBe(true);
  journal.forgetBefore(segment);
  expect(journal.hasBefore(segment)).toBe(false);
  expect(toldBy(dir)).toMatchObject({ ended: ["booked 30"], unreadable: 0 });
  expect(toldBy(dir).open.length).toBe(1);
});

test("a journal that is of no more use leaves no file, and goes on with a new one", async () => {
  const dir = newFolder();
  const journal = openJournal(dir, "inc_1", SEGMENT_BYTES);
  journal.held(held("r1"));
  journal.forgetBefore(Number.POSITIVE_INFINITY);
  expect(readdirSync(dir)).toEqual([]);
  await journal.sync();
  journal.held(held("r2"));
  await journal.sync();
  expect(toldBy(dir).open).toEqual(["r2 admitted"]);
  await journal.close(true);
  expect(readdirSync(dir)).toEqual([]);
});

test("segments that ended are not mapped any more", async () => {
  const dir = newFolder();
  const journal = openJournal(dir, "inc_1", 400);
  for (let many = 0; many < 200; many++) {
    journal.held(held(`r${many}`));
    if (many % 10 === 0) await journal.sync();
  }
  await journal.sync();
  const mappings = readFileSync("/proc/self/maps", "utf8").split(`${dir}/journal-`).length - 1;
  expect(readdirSync(dir).length).toBeGreaterThan(20);
  expect(mappings).toBeLessThanOrEqual(1);
  await journal.close(true);
});

test("holds that have everything but one thing in common are told apart", () => {
  const dir = newFolder();
  const journal = openJournal(dir, "inc_1", SEGMENT_BYTES);
  const changes: Partial<HoldRequest>[] = [
    {},
    { userId: "u2" },
    { keyId: "k2" },
    { groupId: "g2" },
    { interface: "responses" },
    { endpoint: "responses" },
    { publicModel: "m2" },
    { stream: false },
    { tariff: { ...TARIFF, id: "another" } },
    { wantedNano: 2n ** 60n + 1n },
    { inputTokens: 7.4 },
  ];
  const given = changes.map((change, index) => ({
    asked: asking(`r${index}`, change),
    atMs: 1_000 + index,
    lease,
  }));
  for (const one of [...given, ...given]) journal.held(one);
  for (const one of given) journal.held({ ...one, lease: newReservation("u1", 1n) });
  expect(left(dir).open).toEqual(
    given.map(({ asked, atMs }) =>
      buildHold(asked, { amountNano: asked.wantedNano, subscriptionId: null }, "inc_1", atMs),
    ),
  );
});

test("how far several have come is told at once, and each is as far as it was told last", () => {
  const dir = newFolder();
  const journal = openJournal(dir, "inc_1", SEGMENT_BYTES);
  const ids = ["r1", "r2", "r3"];
  for (const id of ids) journal.held(held(id));
  const progress = { ...UNSENT, state: "dispatched", accountId: "a1", upstreamModel: "gpt" } as const;
  journal.progressed({ progress, requestIds: ids });
  journal.progressed({ progress: { ...progress, outputTokens: 9 }, requestIds: ["r2"] });
  journal.progressed({ progress: UNSENT, requestIds: ["r3", "of an earlier segment"] });
  expect(
    left(dir).open.map(({ requestId, accountId, outputTokens }) => [requestId, accountId, outputTokens]),
  ).toEqual([
    ["r1", "a1", 0],
    ["r2", "a1", 9],
    ["r3", null, 0],
  ]);
});

test("a segment does not know the numbers of the one before it", () => {
  const dir = newFolder();
  const journal = openJournal(dir, "inc_1", SEGMENT_BYTES);
  journal.held(held("r1"));
  writeFileSync(join(dir, "journal-inc_1.2.jsonl"), '["o"]\n["b","r2",0,1000,100,20]\n');
  expect(toldBy(dir)).toMatchObject({ open: ["r1 admitted"], unreadable: 1 });
});

test("a line that was changed ends the reading of its segment, and of no other one", async () => {
  const dir = newFolder();
  const journal = openJournal(dir, "inc_1", 700);
  const segments = Array.from({ length: 12 }, (_, index) => journal.held(held(`r${index}`)));
  await journal.close(false);
  const path = join(dir, "journal-inc_1.1.jsonl");
  const whole = readFileSync(path);
  const at = whole.indexOf('"r2"');
  const line = whole.subarray(0, at).toString().split("\n").length;
  const inLater = segments.flatMap((segment, index) => (segment > 1 ? [`r${index} admitted`] : []));
  const end = whole.findLastIndex((byte) => byte !== 0) + 1;
  const lineStart = whole.lastIndexOf("\n", at) + 1;
  for (const change of [
    (bytes: Buffer) => void bytes.write("9", at + 2),
    // A page that never reached the disk, with later pages that did.
    (bytes: Buffer) => void bytes.fill(0, at, at + 20),
  ]) {
    const bytes = Buffer.from(whole);
    change(bytes);
    writeFileSync(path, bytes);
    const read = left(dir);
    expect(read.damaged).toEqual([{ name: "journal-inc_1.1.jsonl", line, bytesLost: end - lineStart }]);
    expect(toldBy(dir).open).toEqual(["r0 admitted", "r1 admitted", ...inLater]);
  }
  left(dir).remove();
  expect(readdirSync(dir)).toEqual(["journal-inc_1.1.jsonl.damaged"]);
});

test("segments of the version before, whose lines have no checksums, are read", () => {
  const dir = newFolder();
  writeFileSync(
    join(dir, "journal-inc_1.1.jsonl"),
    `["o"]\n["n",0,"inc_1"]\n["n",1,"u1"]\n["n",2,"${TARIFF.id}"]\n["n",3,"k1"]\n["n",4,"g1"]\n["n",5,"chat.completions"]\n["n",6,"fast"]
["g",0,0,1,2,3,4,5,6,"chat",true]\n["b","r1",0,1000,100,20]\n["b","r2\0\0`,
  );
  expect(left(dir).open).toEqual([holding("r1")]);
  expect(left(dir)).toMatchObject({ torn: 1, unreadable: 0, damaged: [] });
});
