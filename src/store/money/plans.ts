/** Plans and their windows. */

import { z } from "zod";
import { Cache } from "../../base/cache.ts";
import { COUNTED, PLAN_PERIODS, type PlanRecord, type PlanWindow } from "../../records/plan.ts";
import { enumerate, orDuplicate, StoreConflict } from "../engine/conflict.ts";
import { type Db, type Row, transaction } from "../engine/db.ts";
import { bumpPolicyRevision } from "../engine/revisions.ts";
import { integer, json, text } from "../engine/row.ts";
import { listGroups } from "../policy/groups.ts";

const windowsSchema = z
  .array(z.object({ per: z.enum(PLAN_PERIODS), usd: z.string(), counted: z.enum(COUNTED) }))
  .min(1);

export async function listPlans(db: Db): Promise<PlanRecord[]> {
  const rows = await db.sql`
    SELECT id, name, time_zone, windows, created_at_ms FROM plan ORDER BY created_at_ms, id`;
  return rows.map((row) => ({
    id: text(row, "id"),
    name: text(row, "name"),
    timeZone: text(row, "time_zone"),
    windows: planWindows(row, "windows"),
    createdAtMs: integer(row, "created_at_ms"),
  }));
}

/** Changed windows are summed again from the ledger, so a change does not reset the used quota. */
export async function putPlan(db: Db, plan: PlanRecord): Promise<void> {
  if (plan.windows.length === 0) throw new Error("A plan must have at least one window.");
  await transaction(db, async (tx) => {
    await bumpPolicyRevision(tx);
    await orDuplicate(
      `Another plan is already named "${plan.name}".`,
      tx.sql`
        INSERT INTO plan (id, name, time_zone, windows, created_at_ms)
        VALUES (${plan.id}, ${plan.name}, ${plan.timeZone}, ${JSON.stringify(plan.windows)},
          ${plan.createdAtMs})
        ON CONFLICT (id) DO UPDATE SET name = excluded.name, time_zone = excluded.time_zone,
          windows = excluded.windows, created_at_ms = excluded.created_at_ms`,
    );
  });
}

/** False if there is no such plan. A granted one, or one with codes, stays: the ledger refers to it. */
export async function deletePlan(db: Db, id: string): Promise<boolean> {
  return transaction(db, async (tx) => {
    await bumpPolicyRevision(tx);
    const [plan] = await tx.sql`SELECT name FROM plan WHERE id = ${id}`;
    if (plan === undefined) return false;
    const name = text(plan, "name");
    const granted = await tx.sql`SELECT id FROM subscription WHERE plan_id = ${id} ORDER BY id`;
    if (granted.length > 0) {
      const ids = granted.map((row) => text(row, "id"));
      throw new StoreConflict(
        "referenced",
        `The plan "${name}" still has ${enumerate("subscription", ids)}.`,
      );
    }
    const batches = await tx.sql`SELECT name FROM redeem_batch WHERE plan_id = ${id} ORDER BY name`;
    if (batches.length > 0) {
      const names = batches.map((row) => text(row, "name"));
      throw new StoreConflict(
        "referenced",
        `Redeem codes exist for the plan "${name}": ${enumerate("batch", names)}.`,
      );
    }
    const groups = (await listGroups(tx)).filter(({ billing }) => billing.plans?.includes(name));
    if (groups.length > 0) {
      const names = groups.map((group) => group.name);
      throw new StoreConflict("referenced", `The plan "${name}" is used by ${enumerate("group", names)}.`);
    }
    await tx.sql`DELETE FROM plan WHERE id = ${id}`;
    return true;
  });
}

const windowsByText = new Cache<string, PlanWindow[]>({ name: "plan windows by text", entriesMax: 1_000 });

/** Cached by text: windows are read at every admission, and there are few different ones. */
export function planWindows(row: Row, column: string): PlanWindow[] {
  return windowsByText.getOrCreate(text(row, column), () => json(row, column, windowsSchema));
}
