/** What limits count of a request: its estimate before it is sent, and its true use when it has ended. */

import { mapKinds } from "../../base/map-kinds.ts";
import type { EstimatedUse, TrueUse } from "../../limits/limiter-types.ts";
import { countsUnit } from "../../limits/subject-state.ts";
import type { TokenCounts } from "../../money/token-counts.ts";
import type { ModelRequest } from "../../protocols/shared/request.ts";
import { ALL_UNITS, type CallerLimits, type RateLimits, type Unit } from "../../records/limits.ts";

/** The units that some limit counts. The others are not estimated. */
export type CountedUnits = Readonly<Record<Unit, boolean>>;

export function findCountedUnits(limits: readonly (CallerLimits | RateLimits)[]): CountedUnits {
  return mapKinds(ALL_UNITS, (unit) => limits.some((one) => countsUnit(one, unit)));
}

export function estimateCounts(
  request: Pick<ModelRequest, "tokensEstimate">,
  counted: CountedUnits,
  nano: number,
): EstimatedUse {
  return { tokens: counted.tokens ? request.tokensEstimate() : 0, nano };
}

/** `tokens` is null if they are unknown: their estimate remains. */
export function measureCounts(tokens: TokenCounts | null, nano: number | null): TrueUse {
  return { tokens: tokens === null ? null : tokens.inputTokens + tokens.outputTokens, nano };
}
