import { expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "../../test/support/eventually.ts";
import { FailoverDatabase } from "../../test/support/standby.ts";
import { groupRecord, keyRecord } from "../records/records.test-support.ts";
import { openKeyring } from "../secrets/keyring.ts";
import { openDb } from "../store/engine/db.ts";
import { migrate } from "../store/engine/migrate.ts";
import { putGroup } from "../store/policy/groups.ts";
import { insertKey, revokeKey } from "../store/policy/keys.ts";
import { openLivePolicy } from "./live-policy.ts";

setDefaultTimeout(120_000);

test("a failover that loses a change of keys neither hides a later one nor keeps what was lost", async () => {
  const folder = mkdtempSync(join(tmpdir(), "gateway-policy-"));
  const database = await FailoverDatabase.create();
  const db = await openDb(database.url);
  await migrate(db);
  await putGroup(db, groupRecord("g1", {}));
  await insertKey(db, keyRecord("k1"));
  const policy = await openLivePolicy({
    db,
    clock: { nowMs: () => 0, monotonicMs: () => performance.now() },
    keyring: openKeyring({ file: join(folder, "master.key"), fromEnv: undefined }),
    simulatorUrl: null,
    log: { info() {}, warn() {}, error() {} },
    // The test decides when it looks: between the failover and the next change it does not.
    pollMs: 3_600_000,
    timeoutMs: 5_000,
  });
  try {
    await database.standby.catchUp();
    database.standby.stopReplication();
    await insertKey(db, keyRecord("k2"));
    await policy.refresh();
    expect(policy.keys.get("k2")?.id).toBe("k2");
    await database.failOver();
    // The revocation has the revision that the lost key had.
    await eventually(
      () =>
        revokeKey(db, "k1", 1).then(
          () => true,
          () => false,
        ),
      60_000,
    );
    await policy.refresh();
    expect(policy.keys.get("k1")).toBeUndefined();
    expect(policy.keys.get("k2")).toBeUndefined();
  } finally {
    policy.close();
    await db.close();
    await database.remove();
    rmSync(folder, { recursive: true, force: true });
  }
});
