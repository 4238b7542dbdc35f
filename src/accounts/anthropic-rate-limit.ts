/** Reads `anthropic-ratelimit-*`: the limits that Anthropic's API reports with every response. */

import type { AnswerHeaders } from "../net/http-client/contract.ts";
import type { Headroom, ReportedLimit } from "./headroom.ts";

/** `tokens` is the tightest of the token limits at Anthropic. Other upstreams may send only the two halves. */
const LIMITS = ["requests", "tokens", "input-tokens", "output-tokens"] as const;

const AMPLE_SHARE = 0.5;
const RESET_MS_DEFAULT = 1_000;

/** Returns null when the upstream sends none. */
export function readAnthropicHeadroom(headers: AnswerHeaders): Headroom | null {
  let tightest: Headroom | null = null;
  for (const name of LIMITS) {
    const remaining = readShare(headers, name);
    if (remaining === null || (tightest !== null && tightest.remaining <= remaining)) continue;
    tightest = { remaining, resetMs: remaining >= AMPLE_SHARE ? 0 : readResetMs(headers, name) };
  }
  return tightest;
}

/** The limits for administrators. */
export function readAnthropicLimits(headers: AnswerHeaders): ReportedLimit[] {
  return (["requests", "tokens"] as const).flatMap((unit) => {
    const limit = readCount(headers, `anthropic-ratelimit-${unit}-limit`);
    const remaining = readCount(headers, `anthropic-ratelimit-${unit}-remaining`);
    if (limit === null && remaining === null) return [];
    const hasReset = headers.has(`anthropic-ratelimit-${unit}-reset`);
    return { unit, limit, remaining, resetMs: hasReset ? readResetMs(headers, unit) : null };
  });
}

function readShare(headers: AnswerHeaders, name: string): number | null {
  const remaining = readCount(headers, `anthropic-ratelimit-${name}-remaining`);
  if (remaining === null) return null;
  const limit = readCount(headers, `anthropic-ratelimit-${name}-limit`) ?? 0;
  if (remaining === 0) return 0;
  // Without the limit, the share is unknown. Only that something remains is known.
  return limit > 0 ? Math.min(1, remaining / limit) : 1;
}

/** The reset is a point in time (RFC 3339) by the upstream's clock, which `date` reports. */
function readResetMs(headers: AnswerHeaders, name: string): number {
  const resetMs =
    Date.parse(headers.get(`anthropic-ratelimit-${name}-reset`) ?? "") -
    Date.parse(headers.get("date") ?? "");
  return Number.isNaN(resetMs) ? RESET_MS_DEFAULT : Math.max(RESET_MS_DEFAULT, resetMs);
}

function readCount(headers: AnswerHeaders, name: string): number | null {
  const text = headers.get(name);
  const count = text === null || text === "" ? Number.NaN : Number(text);
  return Number.isFinite(count) && count >= 0 ? count : null;
}
