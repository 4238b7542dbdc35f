/** Limits of two keys in the traffic of several nodes, checked by what reached the simulator and by the usage rows. */

import type { LedgerEntry } from "../../simulator/ledger.ts";
import type { Db } from "../../src/store/engine/db.ts";
import type { UsageRow } from "../../src/store/usage/usage-row.ts";
import type { ClientRecord } from "./client.ts";
import { checked, type Finding } from "./fault.ts";
import { readMarker } from "./killable-gateway.ts";
import { buildKey } from "./setup.ts";

/** Users with their own limits. Both pay. */
const BY_MINUTE = 7;
const BY_WINDOW = 5;
const RPM = 120;
const WINDOW = { per: "5h", usd: "0.02" } as const;
/** A response with an absurd usage costs its hold, which assumes a token for each byte of the input: up to 5 % more. */
const WINDOW_NANO = 21_000_000n;
const MINUTE_MS = 60_000;

export function chooseLimits(user: number): object | undefined {
  if (user === BY_MINUTE) return { rpm: RPM };
  if (user === BY_WINDOW) return { windows: [WINDOW] };
  return undefined;
}

interface LimitedTraffic {
  asked: readonly ClientRecord[];
  rows: readonly UsageRow[];
  truth: readonly LedgerEntry[];
}

export async function checkLimits(db: Db, { asked, rows, truth }: LimitedTraffic): Promise<Finding[]> {
  const arrivals = new Map<string, number>();
  for (const entry of truth) {
    const marker = readMarker(entry);
    if (!arrivals.has(marker)) arrivals.set(marker, entry.at);
  }
  const spans = asked.flatMap(({ key, marker, sentAtMs }) => {
    const arrivedMs = arrivals.get(marker);
    return key !== buildKey(BY_MINUTE) || arrivedMs === undefined ? [] : [{ sentAtMs, arrivedMs }];
  });
  const inMinute = countBusiest(spans);
  const [key] = await db.sql`SELECT id FROM api_key WHERE name = ${`key-${BY_WINDOW}`}`;
  const spentNano = rows
    .filter(({ keyId }) => keyId === key?.id)
    .reduce((sum, { costNano }) => sum + costNano, 0n);
  return [
    checked("requests of a limited key in a minute, at most", inMinute, `${RPM}`, inMinute <= RPM),
    checked("spent in a window of 5 hours", spentNano, `at most ${WINDOW_NANO}`, spentNano <= WINDOW_NANO),
  ];
}

interface RequestSpan {
  readonly sentAtMs: number;
  readonly arrivedMs: number;
}

/**
 * The most requests that were sent and arrived at the upstream within one minute: so they were admitted within it. On a
 * busy machine seconds pass between admission and arrival, so arrivals alone prove nothing.
 */
function countBusiest(spans: readonly RequestSpan[]): number {
  const counts = spans.map(
    ({ sentAtMs: fromMs }) =>
      spans.filter(({ sentAtMs, arrivedMs }) => sentAtMs >= fromMs && arrivedMs < fromMs + MINUTE_MS).length,
  );
  return Math.max(0, ...counts);
}
