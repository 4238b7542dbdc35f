import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { type Db, transaction } from "../engine/db.ts";
import { deleteProcess, registerProcess } from "../money/processes.ts";
import { type JobLease, JobLeaseLost, JobLeases } from "./job-leases.ts";
import { listCoordinatedNodes, listNodes, publishFacts } from "./nodes.ts";

const JOB = { name: "fold", everyMs: 60_000 };

async function openHolder(db: Db, id: string): Promise<JobLeases> {
  const atMs = Date.now();
  await registerProcess(db, {
    id,
    host: "gw-1 boot pid",
    pid: 7,
    startedAtMs: atMs,
    beatAtMs: atMs,
    folderId: null,
    startTicks: null,
  });
  return new JobLeases({ db, clock: { nowMs: Date.now }, holder: id });
}

const doNothing = async () => {};

eachEngine(({ open }) => {
  test("one of several nodes runs a job, and the same one runs it again", async () => {
    const db = await open();
    const [a, b] = [await openHolder(db, "inc_a"), await openHolder(db, "inc_b")];
    const results = await Promise.all([a.run(JOB, doNothing), b.run(JOB, doNothing)]);
    expect(results.filter(Boolean)).toHaveLength(1);
    const [holder, other] = results[0] ? [a, b] : [b, a];
    expect(await holder.run(JOB, doNothing)).toBe(true);
    expect(await other.run(JOB, doNothing)).toBe(false);
    expect(await other.run({ ...JOB, name: "another" }, doNothing)).toBe(true);
  });

  test("a node that stops lets another one take over at once", async () => {
    const db = await open();
    const [a, b] = [await openHolder(db, "inc_a"), await openHolder(db, "inc_b")];
    await a.run(JOB, doNothing);
    await a.release();
    expect(await b.run(JOB, doNothing)).toBe(true);
    expect(await a.run(JOB, doNothing)).toBe(false);
  });

  test("the jobs of a dead node are free when its registration is deleted, or when their term is over", async () => {
    const db = await open();
    const [a, b] = [await openHolder(db, "inc_a"), await openHolder(db, "inc_b")];
    await a.run(JOB, doNothing);
    const [row] = await db.sql`SELECT beat_at_ms FROM process WHERE id = 'inc_a'`;
    await deleteProcess(db, "inc_a", Number(row?.beat_at_ms));
    expect(await b.run(JOB, doNothing)).toBe(true);
    const c = await openHolder(db, "inc_c");
    expect(await c.run(JOB, doNothing)).toBe(false);
    await db.sql`UPDATE job_lease SET until_ms = 1`;
    expect(await c.run(JOB, doNothing)).toBe(true);
  });

  test("a node that was frozen cannot write after another one has taken over", async () => {
    const db = await open();
    const [a, b] = [await openHolder(db, "inc_a"), await openHolder(db, "inc_b")];
    const write = (lease: JobLease) =>
      transaction(db, async (tx) => {
        await lease.check(tx);
        await tx.sql`INSERT INTO setting (name, value) VALUES (${`by fence ${lease.fence}`}, '')`;
      });
    let late: unknown = null;
    await a.run(JOB, async (lease) => {
      await write(lease);
      await db.sql`UPDATE job_lease SET until_ms = 1`;
      await b.run(JOB, write);
      late = await write(lease).catch((error: unknown) => error);
    });
    expect(late).toBeInstanceOf(JobLeaseLost);
    const rows = await db.sql`SELECT name FROM setting WHERE name LIKE 'by fence%' ORDER BY name`;
    expect(rows.map(({ name }) => name)).toEqual(["by fence 1", "by fence 2"]);
  });

  test("the list of nodes has what each one publishes, and its jobs", async () => {
    const db = await open();
    const a = await openHolder(db, "inc_a");
    await openHolder(db, "inc_b");
    await a.run(JOB, doNothing);
    await publishFacts(db, "inc_a", {
      version: "1.2.3",
      address: "gw-1:8787",
      state: "ready",
      coordinator: "memory",
      clockSkewMs: -12,
    });
    const [first, second] = await listNodes(db, { nowMs: Date.now });
    expect(first).toMatchObject({
      id: "inc_a",
      hostName: "gw-1",
      version: "1.2.3",
      address: "gw-1:8787",
      state: "ready",
      clockSkewMs: -12,
      jobs: ["fold"],
    });
    expect(first?.sinceHeartbeatMs).toBeLessThan(60_000);
    expect(second).toMatchObject({ id: "inc_b", version: null, state: null, jobs: [] });
  });

  test("a node reaches the coordinator if it has said so, and has sent a heartbeat since", async () => {
    const db = await open();
    const published = {
      inc_lost: "postgres_lost",
      inc_old: "redis",
      inc_postgres: "postgres",
      inc_redis: "redis",
      inc_starts: "memory",
    };
    const facts = { version: "1.2.3", address: null, state: "ready", clockSkewMs: 0 } as const;
    for (const id of ["inc_silent", ...Object.keys(published)]) await openHolder(db, id);
    for (const [id, coordinator] of Object.entries(published))
      await publishFacts(db, id, { ...facts, coordinator });
    await db.sql`UPDATE process SET beat_at_ms = beat_at_ms - 11000 WHERE id = 'inc_old'`;
    const nodes = await listCoordinatedNodes(db, { nowMs: Date.now });
    expect(nodes.filter(({ reachesCoordinator }) => reachesCoordinator).map(({ id }) => id)).toEqual([
      "inc_postgres",
      "inc_redis",
    ]);
    expect(nodes.length).toBe(6);
  });
});
