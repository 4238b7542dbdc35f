/** Plans the retention of usage rows: one setting of the whole installation, with its own step. */

import { writeUsageRowsKept } from "../../store/usage/usage-removal.ts";
import type { GatewayFile } from "../schema/schema.ts";
import { durationText } from "../schema/usage-limits.ts";
import { buildStep, type ConfigState, type PlanStep } from "../state/step.ts";

/** An omitted setting is kept. */
export function planRetention(state: ConfigState, { retention }: GatewayFile): PlanStep[] {
  const before = state.usageRowsKeptMs;
  const after = retention?.usage_rows === undefined ? before : retention.usage_rows;
  if (after === before) return [];
  const fields = [{ field: "usage_rows", from: retentionText(before), to: retentionText(after) }];
  return [buildStep("retention", false, fields, (tx) => writeUsageRowsKept(tx, after))].flatMap(
    (step) => step ?? [],
  );
}

function retentionText(ms: number | null): string {
  return ms === null ? "forever" : durationText(ms);
}
