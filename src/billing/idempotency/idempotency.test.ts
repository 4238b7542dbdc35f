import { expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { eventually } from "../../../test/support/eventually.ts";
import { eachEngine } from "../../../test/support/postgres.ts";
import { type Keyring, openKeyring } from "../../secrets/keyring.ts";
import type { Db } from "../../store/engine/db.ts";
import { writeHeartbeat } from "../../store/money/processes.ts";
import { type Idempotency, type IdempotencyOptions, openIdempotency } from "./idempotency.ts";

const NOW_MS = 1_794_000_000_000;
const DAY_MS = 86_400_000;
const claim = (requestId: string) => ({ scope: "key_1", token: "t", fingerprint: "f", requestId });
const ANSWER = { status: 200, contentType: "application/json", body: '{"text":"canary ü"}' };

const newKeyring = (): Keyring =>
  openKeyring({ file: "/nowhere", fromEnv: randomBytes(32).toString("base64") });
const keyring = newKeyring();

/** The test sets `node.nowMs`. */
function nodeOn(db: Db, change: Partial<IdempotencyOptions> = {}): Idempotency & { nowMs: number } {
  const node = { nowMs: NOW_MS };
  const clock = { nowMs: () => node.nowMs };
  const memory = openIdempotency({
    db,
    clock,
    keyring,
    incarnation: "inc_1",
    keptMs: DAY_MS,
    answerBytesMax: 64 * 1024,
    ...change,
  });
  return Object.assign(node, memory);
}

eachEngine(({ open }) => {
  test("the first is new, a repeat hears that it runs, and then gets the same answer", async () => {
    const node = nodeOn(await open());
    expect(await node.begin(claim("req_1"))).toEqual({ kind: "new" });
    expect(await node.begin(claim("req_2"))).toEqual({ kind: "running", requestId: "req_1" });
    await node.finish(claim("req_1"), ANSWER);
    expect(await node.begin(claim("req_3"))).toEqual({ kind: "done", requestId: "req_1", stored: ANSWER });
  });

  test("an end that the store did not take is told when it is back", async () => {
    const db = await open();
    let isAway = false;
    const failing = new Proxy(db.sql, {
      apply: (sql, self, args) =>
        isAway ? Promise.reject(new Error("away")) : Reflect.apply(sql, self, args),
    });
    const node = nodeOn({ ...db, sql: failing }, { pauseMs: 5 });
    const forgotten = { ...claim("req_2"), token: "u" };
    for (const one of [claim("req_1"), forgotten]) await node.begin(one);
    isAway = true;
    await expect(node.finish(claim("req_1"), ANSWER)).rejects.toThrow("away");
    await expect(node.forget(forgotten)).rejects.toThrow("away");
    isAway = false;
    const done = await eventually(async () => {
      const begun = await node.begin(claim("req_3"));
      return begun.kind === "done" ? begun : null;
    });
    expect(done).toEqual({ kind: "done", requestId: "req_1", stored: ANSWER });
    await eventually(async () => (await node.begin({ ...forgotten, requestId: "req_4" })).kind === "new");
  });

  test("another body under the same token is told apart, running or done", async () => {
    const node = nodeOn(await open());
    await node.begin(claim("req_1"));
    const other = { ...claim("req_2"), fingerprint: "g" };
    expect(await node.begin(other)).toEqual({ kind: "other_body", requestId: "req_1" });
    await node.finish(claim("req_1"), ANSWER);
    expect(await node.begin(other)).toEqual({ kind: "other_body", requestId: "req_1" });
  });

  test("tokens of two keys have nothing to do with each other", async () => {
    const node = nodeOn(await open());
    await node.begin(claim("req_1"));
    expect(await node.begin({ ...claim("req_2"), scope: "key_2" })).toEqual({ kind: "new" });
    expect(await node.begin({ ...claim("req_3"), token: "T" })).toEqual({ kind: "new" });
  });

  test("of many who begin at once on two nodes exactly one is new", async () => {
    const db = await open();
    const nodes = [nodeOn(db), nodeOn(db, { incarnation: "inc_2" })];
    const begun = await Promise.all(
      Array.from({ length: 20 }, (_, i) => nodes[i % 2]?.begin(claim(`req_${i}`))),
    );
    expect(begun.filter((one) => one?.kind === "new")).toHaveLength(1);
    const winner = `req_${begun.findIndex((one) => one?.kind === "new")}`;
    for (const one of begun.filter((other) => other?.kind !== "new"))
      expect(one).toEqual({ kind: "running", requestId: winner });
  });

  test("what was forgotten may be tried again, and only its own request can forget it", async () => {
    const node = nodeOn(await open());
    await node.begin(claim("req_1"));
    await node.forget(claim("req_2"));
    expect(await node.begin(claim("req_2"))).toMatchObject({ kind: "running" });
    await node.forget(claim("req_1"));
    expect(await node.begin(claim("req_2"))).toEqual({ kind: "new" });
    await node.finish(claim("req_1"), ANSWER);
    expect(await node.begin(claim("req_3"))).toEqual({ kind: "running", requestId: "req_2" });
  });

  test("an answer that is a stream, or too long, is not kept, and the request is done all the same", async () => {
    const node = nodeOn(await open(), { answerBytesMax: 10 });
    const gone = { kind: "done", requestId: "req_1", stored: null } as const;
    await node.begin(claim("req_1"));
    await node.finish(claim("req_1"), null);
    expect(await node.begin(claim("req_2"))).toEqual(gone);
    for (const [body, kept] of [
      ["ü".repeat(5), true],
      [`${"ü".repeat(5)}x`, false],
    ] as const) {
      const own = { ...claim("req_1"), token: body };
      await node.begin(own);
      await node.finish(own, { ...ANSWER, body });
      expect(await node.begin(own)).toEqual({ ...gone, stored: kept ? { ...ANSWER, body } : null });
    }
  });

  test("the store cannot be read for what a model said, and without its master key the answer is gone", async () => {
    const db = await open();
    const node = nodeOn(db);
    await node.begin(claim("req_1"));
    await node.finish(claim("req_1"), ANSWER);
    expect(JSON.stringify(await db.sql`SELECT * FROM idempotency`)).not.toContain("canary");
    const later = nodeOn(db, { keyring: newKeyring() });
    expect(await later.begin(claim("req_2"))).toEqual({ kind: "done", requestId: "req_1", stored: null });
  });

  test("an answer that cannot be sealed is not kept, and the request is done all the same", async () => {
    const broken: Keyring = {
      get activeKid(): string {
        throw new Error("unreadable");
      },
      get: () => null,
    };
    const node = nodeOn(await open(), { keyring: broken });
    await node.begin(claim("req_1"));
    await node.finish(claim("req_1"), ANSWER);
    expect(await node.begin(claim("req_2"))).toEqual({ kind: "done", requestId: "req_1", stored: null });
  });

  test("after a day a token is free again, swept or not", async () => {
    const db = await open();
    const node = nodeOn(db);
    await node.begin(claim("req_1"));
    await node.finish(claim("req_1"), ANSWER);
    node.nowMs = NOW_MS + DAY_MS;
    await node.sweep();
    expect(await node.begin(claim("req_2"))).toMatchObject({ kind: "done" });
    node.nowMs += 1;
    expect(await node.begin({ ...claim("req_2"), fingerprint: "g" })).toEqual({ kind: "new" });
    expect(await node.begin({ ...claim("req_3"), fingerprint: "g" })).toMatchObject({ kind: "running" });
    node.nowMs += DAY_MS + 1;
    await node.sweep();
    expect(await db.sql`SELECT token FROM idempotency`).toEqual([]);
  });

  test("a sweep takes more than one portion", async () => {
    const db = await open();
    const node = nodeOn(db);
    const rows = Array.from({ length: 2_500 }, (_, i) => `('k', 't${i}', 'f', 'r', 'i', 5, 'done')`);
    await db.sql.script(
      `INSERT INTO idempotency (scope, token, fingerprint, request_id, incarnation, at_ms, state) VALUES ${rows.join(", ")}`,
    );
    await node.begin(claim("req_1"));
    await node.sweep();
    expect(await db.sql`SELECT token FROM idempotency`).toEqual([{ token: "t" }]);
  });

  test("what a dead process was at is done without an answer; the living and oneself are left alone", async () => {
    const db = await open();
    await writeHeartbeat(db, {
      id: "inc_alive",
      host: "h",
      pid: 1,
      startedAtMs: 1,
      beatAtMs: 1,
      folderId: null,
      startTicks: null,
    });
    for (const incarnation of ["inc_dead", "inc_alive", "inc_1"]) {
      await nodeOn(db, { incarnation }).begin({ ...claim(`req_${incarnation}`), token: incarnation });
    }
    const node = nodeOn(db);
    expect(await node.recover()).toBe(1);
    expect(await node.recover()).toBe(0);
    const again = (token: string) => node.begin({ ...claim("req_9"), token });
    expect(await again("inc_dead")).toEqual({ kind: "done", requestId: "req_inc_dead", stored: null });
    for (const alive of ["inc_alive", "inc_1"]) expect(await again(alive)).toMatchObject({ kind: "running" });
  });

  test("a process that was only thought dead still leaves its answer", async () => {
    const db = await open();
    const slow = nodeOn(db, { incarnation: "inc_slow" });
    await slow.begin(claim("req_1"));
    await nodeOn(db).recover();
    await slow.finish(claim("req_1"), ANSWER);
    expect(await slow.begin(claim("req_2"))).toEqual({ kind: "done", requestId: "req_1", stored: ANSWER });
  });
});
