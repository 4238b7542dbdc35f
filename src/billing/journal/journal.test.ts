import { expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { UNSENT } from "../../store/money/holds.ts";
import { usageRow } from "../../store/usage/usage-row.test-support.ts";
import type { UsageRow } from "../../store/usage/usage-row.ts";
import type { HoldRequest } from "../engine/billing-types.ts";
import { buildHoldRequest, buildTestSettlement, TARIFF } from "../engine/direct-billing.test-support.ts";
import { buildHold } from "../engine/hold-decisions.ts";
import { Journal } from "./journal.ts";
import { encodeHold } from "./journal-events.ts";
import { LineBuffer } from "./line-buffer.ts";
import { listOrphanedJournals } from "./orphaned-journals.ts";

const SEGMENT_BYTES = 100_000;
const newFolder = () => mkdtempSync(join(tmpdir(), "gateway-journal-"));
const held = (requestId: string) => ({ request: buildHoldRequest(requestId), atMs: 1_000 });
const holding = (requestId: string) =>
  buildHold(buildHoldRequest(requestId), { amountNano: 100n, subscriptionId: null }, "inc_1", 1_000);

function left(dir: string) {
  const [journal] = listOrphanedJournals(dir, () => false);
  if (journal === undefined) throw new Error("There is no journal.");
  return journal;
}

/** The content of a journal in short form. */
function readJournal(dir: string) {
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

test("a settlement is read back with all columns of its usage row", () => {
  const dir = newFolder();
  const journal = new Journal({ dir, processId: "inc_1", segmentBytes: SEGMENT_BYTES });
  journal.appendHold(held("r1"));
  journal.appendSettlement(FULL);
  expect(left(dir).settlements).toEqual([{ row: FULL, chargedNano: 31n }]);
});

test("an unpaid row is read back with all its columns", () => {
  const dir = newFolder();
  const journal = new Journal({ dir, processId: "inc_1", segmentBytes: SEGMENT_BYTES });
  const rows = [FULL, usageRow({ requestId: "r2" }), { ...FULL, requestId: "r3", inputTokens: 99 }];
  for (const row of rows) journal.appendUnpaidRow(row);
  expect(left(dir).rows).toEqual(rows);
  expect(left(dir)).toMatchObject({ settlements: [], torn: 0, unreadable: 0 });
});

test("rows that differ in a single column are read back correctly", () => {
  const dir = newFolder();
  const journal = new Journal({ dir, processId: "inc_1", segmentBytes: SEGMENT_BYTES });
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
  for (const row of [FULL, ...rows]) journal.appendUnpaidRow(row);
  expect(left(dir).rows).toEqual([FULL, ...rows]);
});

test("many kinds of rows over many segments are all read back unchanged", () => {
  const dir = newFolder();
  const journal = new Journal({ dir, processId: "inc_1", segmentBytes: 4_000 });
  const rows = Array.from({ length: 300 }, (_, index) =>
    usageRow({ publicModel: `m${(index * 7) % 50}`, inputTokens: index }),
  );
  const segments = rows.map((row) => journal.appendUnpaidRow(row));
  expect(new Set(segments).size).toBeGreaterThan(3);
  expect(left(dir)).toMatchObject({ rows, torn: 0, unreadable: 0 });
  // Each segment can be read without the earlier ones.
  const last = segments.at(-1) ?? 0;
  journal.deleteSegmentsBefore(last);
  expect(left(dir).rows).toEqual(rows.filter((_, index) => segments[index] === last));
});

test("after a crash at any byte, complete lines are read and the torn line is ignored", () => {
  const dir = newFolder();
  const journal = new Journal({ dir, processId: "inc_1", segmentBytes: SEGMENT_BYTES });
  const steps: ((journal: Journal) => void)[] = [
    (to) => to.appendHold(held("ü1")),
    (to) => to.appendProgress({ progress: { ...UNSENT, accountId: "a" }, requestIds: ["r0", "ü1"] }),
    (to) => to.appendHold(held("r2")),
    (to) => to.appendUnpaidRow(usageRow({ requestId: "free 1", publicModel: "€" })),
    (to) => to.appendUnpaidRow(usageRow({ requestId: "free 2", publicModel: "€" })),
    (to) => to.appendSettlement(buildTestSettlement("ü1", 30n).row),
    (to) => to.appendUnpaidRow(usageRow({ requestId: "free 3" })),
  ];
  const path = join(dir, "journal-inc_1.1.jsonl");
  /** After each step: the length of the text, and its content. */
  const states = steps.map((step) => {
    step(journal);
    return { end: readFileSync(path).indexOf(0), contents: readJournal(dir) };
  });
  const nothing = { open: [], ended: [], rows: [], unreadable: 0 };
  const whole = readFileSync(path);
  const text = whole.subarray(0, whole.indexOf(0));
  for (let cut = 0; cut <= text.length; cut++) {
    writeFileSync(path, Buffer.concat([text.subarray(0, cut), Buffer.alloc(100)]));
    const { contents } = states.findLast(({ end }) => end <= cut) ?? { contents: nothing };
    expect(readJournal(dir)).toEqual(contents);
  }
  // Its bytes may have been written in any order.
  const [before, last] = states.slice(-2);
  if (before === undefined || last === undefined) throw new Error("There are several steps.");
  for (let gap = before.end; gap < last.end; gap++) {
    const torn = Buffer.from(whole);
    torn[gap] = 0;
    writeFileSync(path, torn);
    expect(readJournal(dir)).toEqual(before.contents);
  }
});

test("an entry that does not fit into a segment starts the next one, whatever its length", () => {
  const dir = newFolder();
  const journal = new Journal({ dir, processId: "inc_1", segmentBytes: 350 });
  const segments = Array.from({ length: 20 }, (_, index) => journal.appendHold(held(`r${index}`)));
  const trace = JSON.stringify("€".repeat(5_000));
  journal.appendSettlement({ ...buildTestSettlement("r0", 1n).row, trace });
  journal.appendSettlement(buildTestSettlement("r1", 2n).row);
  expect(new Set(segments).size).toBeGreaterThan(2);
  expect(readdirSync(dir).length).toBeGreaterThan(new Set(segments).size);
  const { open, settlements, torn } = left(dir);
  expect(open.length).toBe(18);
  expect(settlements.map(({ row }) => row.trace)).toEqual([trace, null]);
  expect(torn).toBe(0);
});

test("a settlement is read back even if the segment with its hold was deleted", () => {
  const dir = newFolder();
  const journal = new Journal({ dir, processId: "inc_1", segmentBytes: 700 });
  journal.appendHold(held("booked"));
  let segment = 1;
  while (segment === 1)
    segment = journal.appendHold(held(`open ${readdirSync(dir).length} ${Bun.nanoseconds()}`));
  journal.appendSettlement(buildTestSettlement("booked", 30n).row);
  expect(readJournal(dir).ended).toEqual(["booked 30"]);
  expect(journal.hasSegmentBefore(segment)).toBe(true);
  journal.deleteSegmentsBefore(segment);
  expect(journal.hasSegmentBefore(segment)).toBe(false);
  expect(readJournal(dir)).toMatchObject({ ended: ["booked 30"], unreadable: 0 });
  expect(readJournal(dir).open.length).toBe(1);
});

test("a journal that is no longer needed deletes its files and can start a new one", async () => {
  const dir = newFolder();
  const journal = new Journal({ dir, processId: "inc_1", segmentBytes: SEGMENT_BYTES });
  journal.appendHold(held("r1"));
  journal.deleteSegmentsBefore(Number.POSITIVE_INFINITY);
  expect(readdirSync(dir)).toEqual([]);
  await journal.sync();
  journal.appendHold(held("r2"));
  await journal.sync();
  expect(readJournal(dir).open).toEqual(["r2 admitted"]);
  await journal.closeAndDelete();
  expect(readdirSync(dir)).toEqual([]);
});

test("finished segments are no longer mapped", async () => {
  const dir = newFolder();
  const journal = new Journal({ dir, processId: "inc_1", segmentBytes: 400 });
  for (let many = 0; many < 200; many++) {
    journal.appendHold(held(`r${many}`));
    if (many % 10 === 0) await journal.sync();
  }
  await journal.sync();
  const mappings = readFileSync("/proc/self/maps", "utf8").split(`${dir}/journal-`).length - 1;
  expect(readdirSync(dir).length).toBeGreaterThan(20);
  expect(mappings).toBeLessThanOrEqual(1);
  await journal.closeAndDelete();
});

test("holds that differ in a single field are read back correctly", () => {
  const dir = newFolder();
  const journal = new Journal({ dir, processId: "inc_1", segmentBytes: SEGMENT_BYTES });
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
    request: buildHoldRequest(`r${index}`, change),
    atMs: 1_000 + index,
  }));
  for (const one of [...given, ...given]) journal.appendHold(one);
  expect(left(dir).open).toEqual(
    given.map(({ request: asked, atMs }) =>
      buildHold(asked, { amountNano: asked.wantedNano, subscriptionId: null }, "inc_1", atMs),
    ),
  );
});

test("progress is recorded for several holds at once, and the latest progress counts", () => {
  const dir = newFolder();
  const journal = new Journal({ dir, processId: "inc_1", segmentBytes: SEGMENT_BYTES });
  const ids = ["r1", "r2", "r3"];
  for (const id of ids) journal.appendHold(held(id));
  const progress = { ...UNSENT, state: "dispatched", accountId: "a1", upstreamModel: "gpt" } as const;
  journal.appendProgress({ progress, requestIds: ids });
  journal.appendProgress({ progress: { ...progress, outputTokens: 9 }, requestIds: ["r2"] });
  journal.appendProgress({ progress: UNSENT, requestIds: ["r3", "of an earlier segment"] });
  expect(
    left(dir).open.map(({ requestId, accountId, outputTokens }) => [requestId, accountId, outputTokens]),
  ).toEqual([
    ["r1", "a1", 0],
    ["r2", "a1", 9],
    ["r3", null, 0],
  ]);
});

test("a changed line ends the reading of its own segment only", async () => {
  const dir = newFolder();
  const journal = new Journal({ dir, processId: "inc_1", segmentBytes: 1_500 });
  const segments = Array.from({ length: 12 }, (_, index) => journal.appendHold(held(`r${index}`)));
  await journal.close();
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
    expect(readJournal(dir).open).toEqual(["r0 admitted", "r1 admitted", ...inLater]);
  }
  left(dir).remove();
  expect(readdirSync(dir)).toEqual(["journal-inc_1.1.jsonl.damaged"]);
});

test("lines that this version does not understand are counted, and the lines after them are read", async () => {
  const dir = newFolder();
  const line = new LineBuffer();
  const lines = ['["o",2]', '["n",0,"inc_1"]', '{"event":"later"}', encodeHold(held("r1"))].map((json) => {
    line.setLine(json);
    return Buffer.from(line.bytes.subarray(0, line.length));
  });
  writeFileSync(join(dir, "journal-inc_1.1.jsonl"), Buffer.concat(lines));
  expect(left(dir)).toMatchObject({ open: [holding("r1")], torn: 0, unreadable: 3, damaged: [] });
});
