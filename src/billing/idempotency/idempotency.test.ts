import { expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { eventually } from "../../../test/support/eventually.ts";
import { type Keyring, openKeyring } from "../../secrets/keyring.ts";
import type { Db } from "../../store/engine/db.ts";
import { writeHeartbeat } from "../../store/money/processes.ts";
import { Idempotency, type IdempotencyOptions } from "./idempotency.ts";

const NOW_MS = 1_794_000_000_000;
const DAY_MS = 86_400_000;
const claim = (requestId: string) => ({ scope: "key_1", token: "t", fingerprint: "f", requestId });
const RESPONSE = { status: 200, contentType: "application/json", body: '{"text":"canary ü"}' };

const newKeyring = (): Keyring =>
  openKeyring({ file: "/nowhere", fromEnv: randomBytes(32).toString("base64") });
const keyring = newKeyring();

/** The test sets `node.nowMs`. */
function nodeOn(db: Db, change: Partial<IdempotencyOptions> = {}): Idempotency & { nowMs: number } {
  const idempotency = new Idempotency({
    db,
    clock: { nowMs: () => node.nowMs },
    keyring,
    processId: "inc_1",
    keptMs: DAY_MS,
    responseBytesMax: 64 * 1024,
    ...change,
  });
  const node: Idempotency & { nowMs: number } = Object.assign(idempotency, { nowMs: NOW_MS });
  return node;
}

eachEngine(({ open }) => {
  test("thousands of claims that expire together are deleted in several turns of the event loop", async () => {
    const db = await open();
    await db.sql`
      WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 5000)
      INSERT INTO idempotency (scope, token, fingerprint, request_id, process_id, at_ms, state)
      SELECT 'key_1', CAST(n AS TEXT), 'f', 'req_1', 'inc_1', 1, 'running' FROM number`;
    let turns = 0;
    let isDone = false;
    const count = () => {
      turns++;
      if (!isDone) setImmediate(count);
    };
    setImmediate(count);
    await nodeOn(db).deleteExpired();
    isDone = true;
    expect(turns).toBeGreaterThanOrEqual(5);
    expect(await db.sql`SELECT token FROM idempotency`).toHaveLength(0);
  });

  test("the first request is new; a repeat is reported as running, then gets the same response", async () => {
    const node = nodeOn(await open());
    expect(await node.begin(claim("req_1"))).toEqual({ kind: "new" });
    expect(await node.begin(claim("req_2"))).toEqual({ kind: "running", requestId: "req_1" });
    await node.finish(claim("req_1"), RESPONSE);
    expect(await node.begin(claim("req_3"))).toEqual({ kind: "done", requestId: "req_1", stored: RESPONSE });
  });

  test("a result that the database did not accept is recorded when the database is back", async () => {
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
    await expect(node.finish(claim("req_1"), RESPONSE)).rejects.toThrow("away");
    await expect(node.releaseClaim(forgotten)).rejects.toThrow("away");
    isAway = false;
    const done = await eventually(async () => {
      const begun = await node.begin(claim("req_3"));
      return begun.kind === "done" ? begun : null;
    });
    expect(done).toEqual({ kind: "done", requestId: "req_1", stored: RESPONSE });
    await eventually(async () => (await node.begin({ ...forgotten, requestId: "req_4" })).kind, {
      equals: "new",
    });
  });

  test("another body under the same idempotency key is detected, running or done", async () => {
    const node = nodeOn(await open());
    await node.begin(claim("req_1"));
    const other = { ...claim("req_2"), fingerprint: "g" };
    expect(await node.begin(other)).toEqual({ kind: "other_body", requestId: "req_1" });
    await node.finish(claim("req_1"), RESPONSE);
    expect(await node.begin(other)).toEqual({ kind: "other_body", requestId: "req_1" });
  });

  test("idempotency keys of two API keys are independent", async () => {
    const node = nodeOn(await open());
    await node.begin(claim("req_1"));
    expect(await node.begin({ ...claim("req_2"), scope: "key_2" })).toEqual({ kind: "new" });
    expect(await node.begin({ ...claim("req_3"), token: "T" })).toEqual({ kind: "new" });
  });

  test("of many concurrent requests on two nodes, exactly one is new", async () => {
    const db = await open();
    const nodes = [nodeOn(db), nodeOn(db, { processId: "inc_2" })];
    const begun = await Promise.all(
      Array.from({ length: 20 }, (_, i) => nodes[i % 2]?.begin(claim(`req_${i}`))),
    );
    expect(begun.filter((one) => one?.kind === "new")).toHaveLength(1);
    const winner = `req_${begun.findIndex((one) => one?.kind === "new")}`;
    for (const one of begun.filter((other) => other?.kind !== "new"))
      expect(one).toEqual({ kind: "running", requestId: winner });
  });

  test("a forgotten idempotency key can be used again, and only its own request can forget it", async () => {
    const node = nodeOn(await open());
    await node.begin(claim("req_1"));
    await node.releaseClaim(claim("req_2"));
    expect(await node.begin(claim("req_2"))).toMatchObject({ kind: "running" });
    await node.releaseClaim(claim("req_1"));
    expect(await node.begin(claim("req_2"))).toEqual({ kind: "new" });
    await node.finish(claim("req_1"), RESPONSE);
    expect(await node.begin(claim("req_3"))).toEqual({ kind: "running", requestId: "req_2" });
  });

  test("a streamed or too long response is not stored, and the request still counts as done", async () => {
    const node = nodeOn(await open(), { responseBytesMax: 10 });
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
      await node.finish(own, { ...RESPONSE, body });
      expect(await node.begin(own)).toEqual({ ...gone, stored: kept ? { ...RESPONSE, body } : null });
    }
  });

  test("stored responses are encrypted, and unreadable without the master key", async () => {
    const db = await open();
    const node = nodeOn(db);
    await node.begin(claim("req_1"));
    await node.finish(claim("req_1"), RESPONSE);
    expect(JSON.stringify(await db.sql`SELECT * FROM idempotency`)).not.toContain("canary");
    const later = nodeOn(db, { keyring: newKeyring() });
    expect(await later.begin(claim("req_2"))).toEqual({ kind: "done", requestId: "req_1", stored: null });
  });

  test("a response that cannot be sealed is not stored, and the request still counts as done", async () => {
    const broken: Keyring = {
      get activeKid(): string {
        throw new Error("unreadable");
      },
      get: () => null,
    };
    const node = nodeOn(await open(), { keyring: broken });
    await node.begin(claim("req_1"));
    await node.finish(claim("req_1"), RESPONSE);
    expect(await node.begin(claim("req_2"))).toEqual({ kind: "done", requestId: "req_1", stored: null });
  });

  test("an idempotency key is free again after one day, swept or not", async () => {
    const db = await open();
    const node = nodeOn(db);
    await node.begin(claim("req_1"));
    await node.finish(claim("req_1"), RESPONSE);
    node.nowMs = NOW_MS + DAY_MS;
    await node.deleteExpired();
    expect(await node.begin(claim("req_2"))).toMatchObject({ kind: "done" });
    node.nowMs += 1;
    expect(await node.begin({ ...claim("req_2"), fingerprint: "g" })).toEqual({ kind: "new" });
    expect(await node.begin({ ...claim("req_3"), fingerprint: "g" })).toMatchObject({ kind: "running" });
    node.nowMs += DAY_MS + 1;
    await node.deleteExpired();
    expect(await db.sql`SELECT token FROM idempotency`).toEqual([]);
  });

  test("a sweep deletes more than one batch", async () => {
    const db = await open();
    const node = nodeOn(db);
    const rows = Array.from({ length: 2_500 }, (_, i) => `('k', 't${i}', 'f', 'r', 'i', 5, 'done')`);
    await db.sql.script(
      `INSERT INTO idempotency (scope, token, fingerprint, request_id, process_id, at_ms, state) VALUES ${rows.join(", ")}`,
    );
    await node.begin(claim("req_1"));
    await node.deleteExpired();
    expect(await db.sql`SELECT token FROM idempotency`).toEqual([{ token: "t" }]);
  });

  test("recovery marks requests of dead processes as done, and leaves all others untouched", async () => {
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
    for (const processId of ["inc_dead", "inc_alive", "inc_1"]) {
      await nodeOn(db, { processId }).begin({ ...claim(`req_${processId}`), token: processId });
    }
    const node = nodeOn(db);
    expect(await node.endOrphanedClaims()).toBe(1);
    expect(await node.endOrphanedClaims()).toBe(0);
    const again = (token: string) => node.begin({ ...claim("req_9"), token });
    expect(await again("inc_dead")).toEqual({ kind: "done", requestId: "req_inc_dead", stored: null });
    for (const alive of ["inc_alive", "inc_1"]) expect(await again(alive)).toMatchObject({ kind: "running" });
  });

  test("a process wrongly considered dead can still store its response", async () => {
    const db = await open();
    const slow = nodeOn(db, { processId: "inc_slow" });
    await slow.begin(claim("req_1"));
    await nodeOn(db).endOrphanedClaims();
    await slow.finish(claim("req_1"), RESPONSE);
    expect(await slow.begin(claim("req_2"))).toEqual({ kind: "done", requestId: "req_1", stored: RESPONSE });
  });
});
