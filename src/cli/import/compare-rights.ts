/** Whether an entry of this gateway allows more than its counterpart in the source. */

import { parseCallerLimits } from "../../config/schema/usage-limits.ts";
import type { GroupRecord } from "../../records/group.ts";
import { type CallerLimits, RATE_KINDS } from "../../records/limits.ts";
import type { ImportedGroup, ImportedLimits } from "./imported.ts";

/** The end of a sentence about the group; null if it allows no more. */
export function findWiderGroup(present: GroupRecord, wanted: ImportedGroup): string | null {
  const more = present.models.find((model) => !wanted.models.includes(model));
  if (more !== undefined) return `offers ${more}, which the group of the source does not`;
  if (wanted.billing !== undefined && present.billing.charge === "none") return "does not charge";
  if (wanted.billing !== undefined && Number(present.billing.multiplier) < Number(wanted.billing.multiplier))
    return "has a lower multiplier";
  // Its steps leave the limits and the price of the group.
  if (present.fallback.length > 0) return "has fallback to other groups";
  return wanted.group_limits !== undefined && isLooser(present.groupLimits, wanted.group_limits)
    ? "has wider limits"
    : null;
}

export function isLooser(present: CallerLimits, wanted: ImportedLimits): boolean {
  const strict = parseWanted(wanted);
  const exceeds = (limit: number | null | undefined, most: number | null) =>
    most !== null && (limit === null || limit === undefined || limit > most);
  return (
    RATE_KINDS.some((kind) => exceeds(present[kind], strict[kind])) ||
    strict.windows.some(({ perMs, nano }) =>
      exceeds(present.windows.find((window) => window.perMs === perMs)?.nano, nano),
    )
  );
}

export function hasMoneyWindow(limits: ImportedLimits | undefined): boolean {
  return (limits?.windows ?? []).some(({ usd }) => usd !== undefined);
}

function parseWanted(wanted: ImportedLimits): CallerLimits {
  // Windows of an import have names of this gateway: import/budget-window.ts chooses them.
  return parseCallerLimits(wanted as Parameters<typeof parseCallerLimits>[0]);
}
