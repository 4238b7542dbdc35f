import { afterAll, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { eventually } from "../../../test/support/eventually.ts";
import { systemClock } from "../../base/clock.ts";
import { limits as productLimits } from "../../config/limits/product-limits.ts";
import { deriveContentKeyring } from "../../secrets/keyring.ts";
import type { Db } from "../../store/engine/db.ts";
import { writeResponsesKept } from "../../store/responses/response-retention.ts";
import { KeySlots } from "../admission/key-limits.ts";
import { openTestBudget } from "../bodies/body-budget.test-support.ts";
import { RecordLoader } from "./record-loader.ts";
import { RecordSealer } from "./record-sealer.ts";
import { type ArchiveLimits, ResponseArchive } from "./response-archive.ts";
import type { ResponseRecord } from "./response-record.ts";

const LIMITS: ArchiveLimits = {
  recordBytesMax: 100_000,
  ownerBytesMax: 1_000_000,
  waitingBytesMax: 1_000_000,
  batchMax: 4,
  batchBytesMax: 100_000,
  checkpointBytes: 1_000_000,
  retryMs: 10,
  settingMs: 0,
  lookUpsMax: 2,
  lookUpPauseMs: 1,
  lookUpAgeMs: 60_000,
  removalWaitMs: 200,
};

const sealer = new RecordSealer({
  keyring: deriveContentKeyring(new Uint8Array(32).fill(1)),
  limits: productLimits.recordThreads,
  monotonicMs: systemClock.monotonicMs,
});
afterAll(() => sealer.close());

const newId = () => `resp_${Bun.randomUUIDv7()}`;

const turn = (input: string) => Buffer.from(`{}\n[]\n${JSON.stringify(input)}`);

function record(change: Partial<ResponseRecord> = {}): ResponseRecord {
  return {
    responseId: newId(),
    previousId: null,
    keyId: "key_1",
    owner: "usr_1",
    atMs: Date.now(),
    tokens: 5,
    memoryBytes: 1_000,
    turn: turn("Hello"),
    ...change,
  };
}

function openArchive(
  db: Db,
  limits: Partial<ArchiveLimits> = {},
): { archive: ResponseArchive; log: string[] } {
  const log: string[] = [];
  const archive = new ResponseArchive({
    db,
    log: { warn: (event) => void log.push(event) },
    clock: systemClock,
    sealer,
    loader: new RecordLoader({
      db,
      sealer,
      limits: productLimits.storedResponseLoads,
      ownSlots: new KeySlots(productLimits.storedResponseLoads.own),
      allSlots: new KeySlots(productLimits.storedResponseLoads.all),
      budget: openTestBudget(1_000_000),
    }),
    limits: { ...LIMITS, ...limits },
    checkpointWal: async () => void log.push("checkpoint"),
  });
  return { archive, log };
}

const KEY = { id: "key_1", userId: null };
const readTurn = (archive: ResponseArchive, responseId: string) =>
  archive.useRecord(responseId, KEY, ({ turn: bytes }) => bytes);

/** Writes fail while the table has another name. */
const breakStore = (db: Db) => db.sql.script("ALTER TABLE stored_response RENAME TO hidden_response");
const repairStore = (db: Db) => db.sql.script("ALTER TABLE hidden_response RENAME TO stored_response");
const countRows = async (db: Db) => (await db.sql`SELECT id FROM stored_response`).length;

eachEngine(({ open }) => {
  test("records are written in the order of their conversation, more than one batch of them", async () => {
    const db = await open();
    const { archive } = openArchive(db);
    const chain: ResponseRecord[] = [];
    for (let i = 0; i < 11; i++) {
      const next = record({ previousId: chain.at(-1)?.responseId ?? null, turn: turn(`turn ${i}`) });
      chain.push(next);
      archive.add(next);
    }
    await archive.close();
    const found = await archive.findChain(chain.at(-1)?.responseId ?? "", KEY);
    expect(found?.map((one) => one.turn)).toEqual(chain.map((one) => one.turn));
    expect(await archive.findChain(chain.at(-1)?.responseId ?? "", { ...KEY, id: "key_2" })).toBeNull();
  });

  test("a record that the database does not accept is written when the database works again", async () => {
    const db = await open();
    const { archive, log } = openArchive(db);
    await breakStore(db);
    const kept = record();
    archive.add(kept);
    await eventually(() => log.includes("stored_responses_not_written"));
    await repairStore(db);
    await eventually(async () => (await readTurn(archive, kept.responseId)) !== null);
  });

  test("records that wait are bounded in memory, and a shutdown does not wait for a broken database", async () => {
    const db = await open();
    const { archive, log } = openArchive(db, { waitingBytesMax: 2_500 });
    await breakStore(db);
    const records = Array.from({ length: 5 }, () => record());
    for (const one of records) archive.add(one);
    expect(log).toContain("stored_responses_dropped");
    await archive.close();
    await repairStore(db);
    expect(await countRows(db)).toBe(0);
  });

  test("responses that continue a long conversation displace no others: each waits with its own turn", async () => {
    const db = await open();
    const { archive, log } = openArchive(db, { waitingBytesMax: 20_000 });
    const records = Array.from({ length: 10 }, () => record({ memoryBytes: 15_000 }));
    for (const one of records) archive.add(one);
    await archive.close();
    expect(log).toEqual([]);
    expect(await countRows(db)).toBe(10);
  });

  test("a record above the limit of one response is not written, others of its batch are", async () => {
    const db = await open();
    const { archive } = openArchive(db, { recordBytesMax: 2_000 });
    const long = record({ turn: turn(Buffer.from(randomBytes(4_000)).toString("base64")) });
    const short = record();
    archive.add(long);
    archive.add(short);
    await archive.close();
    expect(await readTurn(archive, long.responseId)).toBeNull();
    expect(await readTurn(archive, short.responseId)).toEqual(turn("Hello"));
  });

  test("above the limit of an owner, the conversation used least recently is removed", async () => {
    const db = await open();
    const { archive } = openArchive(db, { ownerBytesMax: 20_000 });
    const text = () => Buffer.from(randomBytes(3_000)).toString("base64");
    const records = Array.from({ length: 12 }, (_, at) =>
      record({ turn: turn(text()), atMs: Date.now() + at }),
    );
    for (const one of records) archive.add(one);
    await archive.close();
    const found = await Promise.all(
      records.map(async ({ responseId }) => (await readTurn(archive, responseId)) !== null),
    );
    expect(found.at(0)).toBe(false);
    expect(found.at(-1)).toBe(true);
    // The sum is checked again after a sixteenth of the limit, which is less than one of these.
    const [row] = await db.sql`SELECT bytes FROM stored_response_owner WHERE owner = 'usr_1'`;
    expect(Number(row?.bytes)).toBeLessThanOrEqual(20_000);
  });

  test("long records are written in several batches, and the WAL is checkpointed between them", async () => {
    const db = await open();
    const { archive, log } = openArchive(db, { batchBytesMax: 3_000, checkpointBytes: 10_000 });
    const records = Array.from({ length: 6 }, () =>
      record({ turn: turn(randomBytes(3_000).toString("base64")) }),
    );
    for (const one of records) archive.add(one);
    await archive.close();
    expect(await countRows(db)).toBe(6);
    // Each has more than 4,000 bytes at rest.
    expect(log).toEqual(["checkpoint", "checkpoint"]);
  });

  test("without retention nothing is written", async () => {
    const db = await open();
    await writeResponsesKept(db, 0);
    const { archive } = openArchive(db);
    archive.add(record());
    await archive.close();
    expect(await countRows(db)).toBe(0);
  });

  test("a response that is being written is deleted afterwards, and not while the database fails", async () => {
    const db = await open();
    const { archive } = openArchive(db);
    const kept = record();
    archive.add(kept);
    expect(await archive.remove(kept.responseId, "key_1")).toBe(true);
    expect(await readTurn(archive, kept.responseId)).toBeNull();
    await breakStore(db);
    const stuck = record();
    archive.add(stuck);
    await expect(archive.remove(stuck.responseId, "key_1")).rejects.toMatchObject({ status: 503 });
    await repairStore(db);
    await archive.close();
  });

  test("an id of an upstream is not searched", async () => {
    const db = await open();
    const { archive } = openArchive(db);
    await breakStore(db);
    expect(await readTurn(archive, "resp_68a1f0")).toBeNull();
    await repairStore(db);
  });
});
