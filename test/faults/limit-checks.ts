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
/** A minute less the time that a request may need from its admission to the upstream. */
const MINUTE_MS = 59_000;

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
  const limited = new Set(asked.filter(({ key }) => key === buildKey(BY_MINUTE)).map(({ marker }) => marker));
  const arrivals = new Map<string, number>();
  for (const entry of truth) {
    const marker = readMarker(entry);
    if (limited.has(marker) && !arrivals.has(marker)) arrivals.set(marker, entry.at);
  }
  const inMinute = countBusiest([...arrivals.values()]);
  const [key] = await db.sql`SELECT id FROM api_key WHERE name = ${`key-${BY_WINDOW}`}`;
  const spentNano = rows
    .filter(({ keyId }) => keyId === key?.id)
    .reduce((sum, { costNano }) => sum + costNano, 0n);
  return [
    checked("requests of a limited key in a minute, at most", inMinute, `${RPM}`, inMinute <= RPM),
    checked("spent in a window of 5 hours", spentNano, `at most ${WINDOW_NANO}`, spentNano <= WINDOW_NANO),
  ];
}

/** The most of these moments within one minute. */
function countBusiest(moments: readonly number[]): number {
  const sorted = [...moments].sort((a, b) => a - b);
  let most = 0;
  let first = 0;
  sorted.forEach((atMs, index) => {
    while (atMs - (sorted[first] ?? atMs) >= MINUTE_MS) first += 1;
    most = Math.max(most, index - first + 1);
  });
  return most;
}
