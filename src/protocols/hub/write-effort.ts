/** The effort of reasoning as OpenAI's dialects name it. */

import type { AccountProfile } from "./account-profile.ts";
import type { DroppedFields } from "./dropped-fields.ts";
import { EFFORTS, type Effort, type HubReasoning } from "./hub-request.ts";

const BUDGET_LOW_MAX = 2_048;
const BUDGET_MEDIUM_MAX = 8_192;

/** Null to leave the effort to the model. */
export function writeEffort(
  { effort, budgetTokens }: HubReasoning,
  profile: AccountProfile,
  dropped: DroppedFields,
): Effort | null {
  const wanted = effort ?? (budgetTokens === null ? null : budgetEffort(budgetTokens));
  if (wanted === null) return null;
  if (profile.thinking !== "effort") {
    dropped.add("reasoning.effort");
    return null;
  }
  const { effortMax = "high" } = profile;
  if (effortMax === "max") return wanted;
  // Servers other than OpenAI's know three efforts. Less than the lowest is close to it.
  const rank = Math.max(EFFORTS.indexOf("low"), EFFORTS.indexOf(wanted));
  return EFFORTS[Math.min(rank, EFFORTS.indexOf(effortMax))] ?? wanted;
}

/** A budget in tokens, as the nearest effort. */
export function budgetEffort(budgetTokens: number): Effort {
  if (budgetTokens <= 0) return "none";
  if (budgetTokens <= BUDGET_LOW_MAX) return "low";
  return budgetTokens <= BUDGET_MEDIUM_MAX ? "medium" : "high";
}
