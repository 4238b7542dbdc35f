/** `GET /v1/usage`: what this key has used, today and in all. Read from the roll-ups, after what is still on its way. */

import { storeUnavailable } from "../errors.ts";
import { keyTotals, type UsageTotals } from "../store/usage.ts";
import type { Caller } from "./authenticate.ts";
import type { Gateway } from "./gateway.ts";

interface TotalsObject {
  requests: number;
  failed_requests: number;
  refused_requests: number;
  input_tokens: number;
  cached_tokens: number;
  output_tokens: number;
  reasoning_tokens: number;
  total_tokens: number;
  images: number;
}

export interface UsageReport {
  object: "gateway.usage";
  key: { id: string; name: string; created_at: number; expires_at: number | null };
  group: { name: string; interfaces: string[] };
  usage: { today: TotalsObject & { since: number }; total: TotalsObject };
  /** For desktop tools that ask every gateway the same question. */
  isValid: true;
  planName: string;
}

const DAY_MS = 86_400_000;

export async function reportUsage(
  gateway: Pick<Gateway, "clock" | "db" | "usage">,
  caller: Caller,
): Promise<UsageReport> {
  const { key, group } = caller;
  await gateway.usage.flush().catch(() => {
    throw storeUnavailable();
  });
  const todayMs = Math.floor(gateway.clock.nowMs() / DAY_MS) * DAY_MS;
  const [today, total] = await Promise.all([
    keyTotals(gateway.db, key.id, todayMs),
    keyTotals(gateway.db, key.id, null),
  ]);
  return {
    object: "gateway.usage",
    key: {
      id: key.publicId,
      name: key.name,
      created_at: seconds(key.createdAtMs),
      expires_at: key.expiresAtMs === null ? null : seconds(key.expiresAtMs),
    },
    group: { name: group.name, interfaces: [...group.interfaces] },
    usage: { today: { since: seconds(todayMs), ...totalsObject(today) }, total: totalsObject(total) },
    isValid: true,
    planName: group.name,
  };
}

function totalsObject(totals: UsageTotals): TotalsObject {
  return {
    requests: totals.requests,
    failed_requests: totals.failed,
    refused_requests: totals.refused,
    input_tokens: totals.inputTokens,
    cached_tokens: totals.cachedTokens,
    output_tokens: totals.outputTokens,
    reasoning_tokens: totals.reasoningTokens,
    total_tokens: totals.inputTokens + totals.outputTokens,
    images: totals.images,
  };
}

function seconds(ms: number): number {
  return Math.floor(ms / 1000);
}
