/** Single requests, as JSON for lists and as CSV for export. */

import { z } from "zod";
import { mapKinds } from "../../base/map-kinds.ts";
import { usdText } from "../../money/nano.ts";
import { toUsageCounts, USAGE_COUNT_NAMES } from "../../records/usage-counts.ts";
import type { Db } from "../../store/engine/db.ts";
import { lookUpNames } from "../../store/reports/names.ts";
import { listUsage, type UsageCursor, type UsageFilter } from "../../store/reports/usage-list.ts";
import { USAGE_OUTCOMES, type UsageRow } from "../../store/usage/usage-row.ts";
import { csvLine } from "../http/csv.ts";
import { type Actor, seesEverything } from "../http/route.ts";

export const requestResponse = z.object({
  id: z.string(),
  /** How many rejected requests of one kind the row stands for; 1 for every other row. */
  request_count: z.number(),
  /** When the request ended. */
  at: z.number(),
  key: z.object({ id: z.string(), name: z.string().nullable() }),
  group: z.string().nullable(),
  model: z.string(),
  endpoint: z.string(),
  stream: z.boolean(),
  status: z.number(),
  outcome: z.enum(USAGE_OUTCOMES),
  error_code: z.string().nullable(),
  ...mapKinds(USAGE_COUNT_NAMES, () => z.number()),
  cost: z.string(),
  charged: z.string(),
  waited_ms: z.number(),
  first_byte_ms: z.number().nullable(),
  duration_ms: z.number(),
  attempts: z.number(),
  /** The following fields are for administrators. */
  user: z.string().nullable().optional(),
  account: z.string().nullable().optional(),
  upstream_model: z.string().nullable().optional(),
  upstream_cost: z.string().optional(),
});
type RequestObject = z.input<typeof requestResponse>;

export async function requestObjects(
  db: Db,
  actor: Actor,
  rows: readonly UsageRow[],
): Promise<RequestObject[]> {
  const hasAllFields = seesEverything(actor);
  const [keys, groups, users, accounts] = await Promise.all([
    lookUpNames(
      db,
      "key",
      rows.map(({ keyId }) => keyId),
    ),
    lookUpNames(
      db,
      "group",
      rows.map(({ groupId }) => groupId),
    ),
    lookUpNames(db, "user", hasAllFields ? rows.map(({ userId }) => userId) : []),
    lookUpNames(db, "account", hasAllFields ? rows.map(({ accountId }) => accountId) : []),
  ]);
  return rows.map((row) => ({
    id: row.requestId,
    request_count: row.requestCount,
    at: row.atMs,
    key: { id: row.keyId, name: keys.get(row.keyId) ?? null },
    group: groups.get(row.groupId) ?? null,
    model: row.publicModel,
    endpoint: row.endpoint,
    stream: row.stream,
    status: row.status,
    outcome: row.outcome,
    error_code: row.errorCode,
    ...toUsageCounts(row),
    cost: usdText(row.costNano),
    charged: usdText(row.chargedNano),
    waited_ms: row.waitMs,
    first_byte_ms: row.firstByteMs,
    duration_ms: row.durationMs,
    attempts: row.attempts,
    ...(hasAllFields
      ? {
          user: row.userId === null ? null : (users.get(row.userId) ?? row.userId),
          account: row.accountId === null ? null : (accounts.get(row.accountId) ?? row.accountId),
          upstream_model: row.upstreamModel,
          upstream_cost: usdText(row.upstreamNano),
        }
      : {}),
  }));
}

const ROWS_PER_PART = 1_000;

export async function* csvParts(db: Db, actor: Actor, filter: UsageFilter): AsyncGenerator<string, void> {
  const columns = columnsFor(actor);
  let part = csvLine(columns.map(([name]) => name));
  let after: UsageCursor | null = null;
  do {
    const { rows, next } = await listUsage(db, filter, { after, limit: ROWS_PER_PART });
    const objects = await requestObjects(db, actor, rows);
    part += objects
      .map((requestRow) => csvLine(columns.map(([, readColumn]) => readColumn(requestRow))))
      .join("");
    // Matching rows may be many pages apart, so a part can be empty.
    if (part !== "") yield part;
    part = "";
    after = next;
  } while (after !== null);
}

type CsvColumn = readonly [
  name: string,
  read: (requestRow: RequestObject) => string | number | boolean | null,
];

const COLUMNS: readonly CsvColumn[] = [
  ["request_id", ({ id }) => id],
  ["time", ({ at }) => new Date(at).toISOString()],
  ["key", ({ key }) => key.name ?? key.id],
  ["group", ({ group }) => group],
  ["model", ({ model }) => model],
  ["endpoint", ({ endpoint }) => endpoint],
  ["stream", ({ stream }) => stream],
  ["status", ({ status }) => status],
  ["outcome", ({ outcome }) => outcome],
  ["error_code", (requestRow) => requestRow.error_code],
  ...USAGE_COUNT_NAMES.map((name): CsvColumn => [name, (requestRow) => requestRow[name]]),
  ["cost_usd", ({ cost }) => cost],
  ["charged_usd", ({ charged }) => charged],
  ["waited_ms", (requestRow) => requestRow.waited_ms],
  ["first_byte_ms", (requestRow) => requestRow.first_byte_ms],
  ["duration_ms", (requestRow) => requestRow.duration_ms],
  ["attempts", ({ attempts }) => attempts],
];

const ADMIN_COLUMNS: readonly CsvColumn[] = [
  ["user", ({ user }) => user ?? null],
  ["account", ({ account }) => account ?? null],
  ["upstream_model", (requestRow) => requestRow.upstream_model ?? null],
  ["upstream_cost_usd", (requestRow) => requestRow.upstream_cost ?? null],
];

/** The last column, so that the positions of the others do not change. */
const COUNT_COLUMN: CsvColumn = ["request_count", (requestRow) => requestRow.request_count];

function columnsFor(actor: Actor): readonly CsvColumn[] {
  return seesEverything(actor) ? [...COLUMNS, ...ADMIN_COLUMNS, COUNT_COLUMN] : [...COLUMNS, COUNT_COLUMN];
}
