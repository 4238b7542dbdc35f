/** Extensions of the protocol that only Codex uses. */

import type { Caller } from "../gateway/admission/authenticate.ts";
import { limitsReport, type WindowReport } from "../gateway/endpoints/limits-report.ts";
import type { Limiter } from "../limits/limiter-types.ts";
import { UNITS, WINDOW_UNITS } from "../records/limits.ts";

interface RateLimitWindow {
  used_percent: number;
  window_minutes: number;
  reset_at: number;
}

/** The usage of the key's windows, which Codex shows to its user; null for a key without windows. */
export function rateLimitsFrame(limiter: Limiter, caller: Caller, nowMs: number): string | null {
  const [primary, secondary] = limitsReport(limiter, caller, nowMs).key.windows.map(toRateLimitWindow);
  if (primary === undefined) return null;
  return JSON.stringify({
    type: "codex.rate_limits",
    plan_type: null,
    rate_limits: { primary, secondary: secondary ?? null },
    credits: null,
    metered_limit_name: null,
  });
}

/** Reports the unit with the highest usage. */
function toRateLimitWindow(window: WindowReport): RateLimitWindow {
  const parts = WINDOW_UNITS.flatMap((unit) => {
    const limit = window[UNITS[unit].field];
    return limit === null ? [] : [part(Number(limit.used), Number(limit.limit), limit.resets_at)];
  });
  parts.sort((a, b) => b.percent - a.percent);
  return {
    used_percent: parts[0]?.percent ?? 0,
    window_minutes: Math.round(window.per_seconds / 60),
    reset_at: parts[0]?.resetsAt ?? 0,
  };
}

function part(used: number, limit: number, resetsAt: number): { percent: number; resetsAt: number } {
  return { percent: Math.min(100, Math.round((used / limit) * 1000) / 10), resetsAt };
}

const TURN_STATE = "gwts_";

/** Codex stores the token for a turn and sends it with later requests, so that the turn stays on its account. */
export function turnStateFrame(conversationName: string): string {
  const state = TURN_STATE + Buffer.from(conversationName).toString("base64url");
  return JSON.stringify({ type: "response.metadata", headers: { "x-codex-turn-state": state } });
}

/** Returns the conversation name in a token that this gateway issued; null for any other token. */
export function readConversationName(turnState: string): string | null {
  if (!turnState.startsWith(TURN_STATE)) return null;
  const conversationName = Buffer.from(turnState.slice(TURN_STATE.length), "base64url").toString();
  // The value is used as a header.
  return /^[\x21-\x7e]{1,64}$/.test(conversationName) ? conversationName : null;
}
