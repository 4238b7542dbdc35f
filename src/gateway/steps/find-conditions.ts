/** Which conditions of fallback steps the failure of a step meets. Refusals and mistakes of the client meet none. */

import { ApiError } from "../../errors.ts";
import type { FallbackCondition } from "../../records/fallback.ts";
import type { Caller } from "../admission/authenticate.ts";
import { groupSubjects } from "../admission/caller-limits.ts";
import { HoldRejection } from "../charging/hold-error.ts";

const NONE: readonly FallbackCondition[] = [];

/** `isReserved`: the limits of the step were reserved, so its hold or its dispatch has failed. */
export function findConditions(
  caller: Caller,
  error: ApiError,
  isReserved: boolean,
): readonly FallbackCondition[] {
  if (!isReserved) return findLimitConditions(caller, error);
  if (error instanceof HoldRejection) return error.reason === "subscription_used" ? [error.reason] : NONE;
  switch (error.code) {
    case "rate_limit_exceeded":
      return ["busy"];
    case "server_is_overloaded":
      return ["busy", "failing"];
    case "upstream_error":
    case "upstream_timeout":
    case "upstream_unavailable":
    case "no_available_account":
    case "usage_not_included":
    case "vector_store_timeout":
      return ["failing"];
    case "context_length_exceeded":
      return ["too_long"];
    default:
      return NONE;
  }
}

/** The limits of a key and of a user are never left. Only the two subjects of the group are. */
function findLimitConditions(caller: Caller, { limit }: ApiError): readonly FallbackCondition[] {
  if (limit === null || !groupSubjects(caller).some(({ id }) => id === limit.subjectId)) return NONE;
  return limit.kind === "money" || limit.kind === "window" ? ["window_used"] : ["busy"];
}

/** Limits are reserved before a long body is read, so the model is not known: some model of the group has steps. */
export function mayLeaveGroup(caller: Caller, error: unknown): boolean {
  if (!(error instanceof ApiError) || caller.key.fallback === "deny") return false;
  for (const { fallback } of caller.group.models.values())
    if (fallback.length > 0) return findLimitConditions(caller, error).length > 0;
  return false;
}
