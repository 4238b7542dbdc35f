/** Budgets per time as windows of this gateway, never wider than before. */

import { durationMs, WINDOW_NAMES, type WindowInFile } from "../../config/schema/usage-limits.ts";
import { type Nano, usdText } from "../../money/nano.ts";

/** Returns the reason instead if there is no window for it. */
export function buildWindow(duration: string | null, amountNano: Nano): WindowInFile | string {
  if (duration === null) return "a budget without a duration has no counterpart";
  const wantedMs = durationMs(duration);
  // The same amount over a longer time is stricter.
  const per =
    wantedMs === null ? undefined : WINDOW_NAMES.find((name) => (durationMs(name) ?? 0) >= wantedMs);
  if (per === undefined) return `a budget for ${duration.slice(0, 20)} has no counterpart`;
  if (amountNano <= 0n) return "its budget is zero";
  return { per, usd: usdText(amountNano) };
}
