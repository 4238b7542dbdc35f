/** Limits of three keys in the traffic of several nodes, checked by what reached the simulator and by the usage rows. */

import type { LedgerEntry } from "../../simulator/ledger.ts";
import type { Db } from "../../src/store/engine/db.ts";
import type { UsageRow } from "../../src/store/usage/usage-row.ts";
import type { ClientRecord } from "./client.ts";
import { checked, type Finding } from "./fault.ts";
import { readMarker } from "./killable-gateway.ts";
import { buildKey } from "./setup.ts";

/** Users with their own limits. All of them pay. */
const BY_CONCURRENCY = 3;
const BY_WINDOW = 5;
const BY_MINUTE = 7;
const CONCURRENCY = 2;
/** Reached within seconds. */
const RPM = 60;
const WINDOW = { per: "5h", usd: "0.02" } as const;
const WINDOW_NANO = 20_000_000n;
const MINUTE_MS = 60_000;

export function chooseLimits(user: number): object | undefined {
  if (user === BY_CONCURRENCY) return { concurrency: CONCURRENCY };
  if (user === BY_MINUTE) return { rpm: RPM };
  if (user === BY_WINDOW) return { windows: [WINDOW] };
  return undefined;
}

/** A response with an absurd usage costs its hold, which assumes a token for each byte of the input. */
export function isMeasurable(key: string, model: string): boolean {
  return key !== buildKey(BY_WINDOW) || model !== "absurd";
}

interface LimitedTraffic {
  asked: readonly ClientRecord[];
  rows: readonly UsageRow[];
  truth: readonly LedgerEntry[];
}

export async function checkLimits(db: Db, { asked, rows, truth }: LimitedTraffic): Promise<Finding[]> {
  const ofKey = (user: number) => {
    const sent = asked.filter(({ key }) => key === buildKey(user));
    const byMarker = new Map(sent.map((one) => [one.marker, one]));
    return truth.flatMap((entry) => {
      const client = byMarker.get(readMarker(entry));
      return client === undefined ? [] : [{ client, entry }];
    });
  };
  const inMinute = countBusiest(ofKey(BY_MINUTE));
  const atOnce = countAtOnce(ofKey(BY_CONCURRENCY));
  const [key] = await db.sql`SELECT id FROM api_key WHERE name = ${`key-${BY_WINDOW}`}`;
  const spentNano = rows
    .filter(({ keyId }) => keyId === key?.id)
    .reduce((sum, { costNano }) => sum + costNano, 0n);
  const isWithin = spentNano > 0n && spentNano <= WINDOW_NANO;
  return [
    checkPeak("requests of a limited key in a minute", inMinute, RPM),
    checkPeak("requests of a limited key at once", atOnce, CONCURRENCY),
    checked("spent in a window of 5 hours", spentNano, `some, at most ${WINDOW_NANO}`, isWithin),
  ];
}

/** A limit that rejects everything is not exact either. */
function checkPeak(what: string, peak: number, most: number): Finding {
  return checked(what, peak, `some, at most ${most}`, peak > 0 && peak <= most);
}

export interface ReachedRequest {
  readonly client: ClientRecord;
  readonly entry: LedgerEntry;
}

/**
 * The most requests that were sent and arrived at the upstream within one minute: so they were admitted within it. On a
 * busy machine seconds pass between admission and arrival, so arrivals alone prove nothing.
 */
export function countBusiest(requests: readonly ReachedRequest[]): number {
  const arrivals = new Map<string, { sentAtMs: number; arrivedMs: number }>();
  for (const { client, entry } of requests)
    if (!arrivals.has(client.marker))
      arrivals.set(client.marker, { sentAtMs: client.sentAtMs, arrivedMs: entry.at });
  const spans = [...arrivals.values()];
  const counts = spans.map(
    ({ sentAtMs: fromMs }) =>
      spans.filter(({ sentAtMs, arrivedMs }) => sentAtMs >= fromMs && arrivedMs < fromMs + MINUTE_MS).length,
  );
  return Math.max(0, ...counts);
}

/**
 * The most responses that were made at once, of those that were sent to their end: when a gateway or its process has
 * left the others is not known, nor does one in the background end with its connection.
 */
export function countAtOnce(requests: readonly ReachedRequest[]): number {
  const spans = requests.flatMap(({ client, entry: { at, sentAt, finished } }) =>
    finished && sentAt !== null && !client.isInBackground ? [{ at, sentAt }] : [],
  );
  const counts = spans.map(
    ({ at: nowMs }) => spans.filter(({ at, sentAt }) => at <= nowMs && nowMs < sentAt).length,
  );
  return Math.max(0, ...counts);
}
