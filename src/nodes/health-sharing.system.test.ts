import { afterEach, expect, test } from "bun:test";
import { eventually } from "../../test/support/eventually.ts";
import { usePostgres } from "../../test/support/postgres.ts";
import { upstreamFailure } from "../accounts/failure.ts";
import type { LivePolicy } from "../policy/live-policy.ts";
import type { AccountRoute } from "../policy/snapshot.ts";
import { openTestPool, route } from "../pool/pool.test-support.ts";
import type { Db } from "../store/engine/db.ts";
import { registerProcess } from "../store/money/processes.ts";
import { HealthSharing } from "./health-sharing.ts";

let db: Db;
const opened: HealthSharing[] = [];

usePostgres((opened) => {
  ({ db } = opened);
});

afterEach(async () => {
  for (const sharing of opened.splice(0)) await sharing.stop();
  await db.sql`DELETE FROM account_fact`;
});

const LIMITS = { pollMs: 5, delayMs: 1, probeDelayMs: 1_000 };

/** A node with its own pool and clock. */
async function openNode(id: string, account: AccountRoute) {
  await registerProcess(db, {
    id,
    host: "h",
    pid: 1,
    startedAtMs: 1,
    beatAtMs: 1,
    folderId: null,
    startTicks: null,
  });
  const test = openTestPool();
  const accounts = new Map([[account.account.id, account.account]]);
  const policy = { snapshot: () => ({ accounts }) } as unknown as Pick<LivePolicy, "snapshot">;
  const log = { info() {}, warn() {}, error() {} };
  const digest = (text: string) => String(Bun.hash(text));
  const sharing = new HealthSharing({
    db,
    clock: test.clock,
    log,
    node: id,
    policy,
    pool: test.pool,
    digest,
    limits: LIMITS,
  });
  await sharing.start();
  opened.push(sharing);
  return {
    ...test,
    stop: () => sharing.stop(),
    condition: () => test.pool.report(account.account).condition,
  };
}

test("one node probes after a cool-down, and its result holds for all", async () => {
  const a = route("a");
  const one = await openNode("inc_1", a);
  const two = await openNode("inc_2", a);
  const attempt = one.take([a]);
  one.pool.recordFailure(a, upstreamFailure("quota", "429"));
  attempt.lease.release();
  await eventually(() => two.condition(), { equals: "cooling" });
  const quotaMs = 600_000;
  for (const node of [one, two]) node.clock.pass(quotaMs + 10);
  // The node that has reported the failure probes first.
  expect(two.condition()).toBe("cooling");
  const probe = one.take([a]);
  expect(probe.probe).toBe(true);
  // While it probes, the other node waits, even after its own delay.
  await eventually(() => (two.pool.report(a.account).freesInMs ?? 0) > 5_000);
  two.clock.pass(5_000);
  expect(two.condition()).toBe("cooling");
  one.pool.recordSuccess(a, 10, null);
  probe.lease.release();
  await eventually(() => two.condition(), { equals: "well" });
});

test("another node probes when the first one has no requests", async () => {
  const a = route("a");
  const [one, two] = [await openNode("inc_1", a), await openNode("inc_2", a)];
  one.take([a]).lease.release();
  one.pool.recordFailure(a, upstreamFailure("quota", "429"));
  await eventually(() => two.condition(), { equals: "cooling" });
  for (const node of [one, two]) node.clock.pass(600_000 + 5_000);
  expect(two.take([a]).probe).toBe(true);
});

test("a probe that ends without a result lets another node probe", async () => {
  const a = route("a");
  const [one, two] = [await openNode("inc_1", a), await openNode("inc_2", a)];
  one.take([a]).lease.release();
  one.pool.recordFailure(a, upstreamFailure("quota", "429"));
  await eventually(() => two.condition(), { equals: "cooling" });
  for (const node of [one, two]) node.clock.pass(600_000 + 10);
  one.take([a]).lease.cancel();
  // The delay of the second node, and not the ten seconds of a running probe.
  two.clock.pass(4_000);
  await eventually(() => two.condition(), { equals: "probing" });
});

test("a report does not apply to a new credential", async () => {
  const a = route("a");
  const one = await openNode("inc_1", a);
  const two = await openNode("inc_2", route("a", { credential: "another" }));
  // Reads the report last, because it has started last.
  const three = await openNode("inc_3", a);
  one.pool.park(a.account);
  await eventually(() => three.condition(), { equals: "parked" });
  expect(one.condition()).toBe("parked");
  expect(two.condition()).toBe("well");
});

test("a node that starts later knows what the others have reported", async () => {
  const a = route("a");
  const one = await openNode("inc_1", a);
  one.pool.park(a.account);
  await eventually(async () => (await db.sql`SELECT 1 AS found FROM account_fact`).length, { equals: 1 });
  expect((await openNode("inc_2", a)).condition()).toBe("parked");
});
