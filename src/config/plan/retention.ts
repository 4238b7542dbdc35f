/** Plans the retention of usage rows and stored responses: settings of the whole installation, with their own step. */

import { writeResponsesKept } from "../../store/responses/response-retention.ts";
import { writeUsageRowsKept } from "../../store/usage/usage-removal.ts";
import type { GatewayFile } from "../schema/schema.ts";
import { durationText } from "../schema/usage-limits.ts";
import { buildStep, type ConfigState, type PlanStep } from "../state/step.ts";

type RetentionState = Pick<ConfigState, "usageRowsKeptMs" | "responsesKeptMs">;

/** An omitted setting is kept. */
export function planRetention(state: ConfigState, { retention }: GatewayFile): PlanStep[] {
  const after: RetentionState = {
    usageRowsKeptMs: retention?.usage_rows === undefined ? state.usageRowsKeptMs : retention.usage_rows,
    responsesKeptMs: retention?.responses ?? state.responsesKeptMs,
  };
  const from = retentionTexts(state);
  const to = retentionTexts(after);
  const fields = (["usage_rows", "responses"] as const)
    .filter((field) => from[field] !== to[field])
    .map((field) => ({ field, from: from[field], to: to[field] }));
  if (fields.length === 0) return [];
  const step = buildStep("retention", false, fields, async (tx) => {
    await writeUsageRowsKept(tx, after.usageRowsKeptMs);
    await writeResponsesKept(tx, after.responsesKeptMs);
  });
  return step === null ? [] : [step];
}

/** The settings in the format of the file. */
export function retentionTexts({ usageRowsKeptMs, responsesKeptMs }: RetentionState) {
  return {
    usage_rows: usageRowsKeptMs === null ? "forever" : durationText(usageRowsKeptMs),
    responses: responsesKeptMs === 0 ? "none" : durationText(responsesKeptMs),
  };
}
