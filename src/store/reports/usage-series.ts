/**
 * Series for the usage page: totals over time, and their split by model, key, user or group. All values are exact to
 * the last committed request: days and hours that are certainly folded come from the daily roll-up, the rest from
 * the hourly one. Usage rows are not read here.
 */

import { DAY_MS, HOUR_MS } from "../../base/time.ts";
import { type Db, numberPlaceholders, type SqlValue } from "../engine/db.ts";
import { integer, text } from "../engine/row.ts";
import { FOLD_GRACE_MS, readFoldedBefore, readFoldState, startOfDay } from "../usage/usage-day.ts";
import { SUM_COLUMNS, TOTALS, toTotals, type UsageTotals } from "../usage/usage-hour.ts";
import { readTopUsage } from "./usage-charts.ts";

/** Empty: all callers. Several fields: the intersection. */
interface SeriesScope {
  keyId?: string;
  userId?: string;
  groupId?: string;
}

export const SERIES_SPLITS = ["total", "model", "key", "user", "group"] as const;
export type SeriesSplit = (typeof SERIES_SPLITS)[number];

export interface SeriesRequest {
  scope: SeriesScope;
  model?: string;
  by: SeriesSplit;
  granularity: "day" | "hour";
  /** Start of a day or an hour. */
  fromMs: number;
  /** Exclusive. */
  toMs: number;
}

export interface SeriesPoint extends UsageTotals {
  atMs: number;
}

export interface SplitUsage {
  total: UsageTotals;
  /** In order of time. A day or hour without usage has no point. */
  points: SeriesPoint[];
  /** Highest cost first, then most requests. */
  ranking: { id: string; totals: UsageTotals }[];
  /** Series of the first entries of the ranking. */
  series: { id: string; points: SeriesPoint[] }[];
}

export interface SeriesBounds {
  ranked: number;
  drawn: number;
}

export async function readSplitUsage(
  db: Db,
  request: SeriesRequest,
  bounds: SeriesBounds,
): Promise<SplitUsage> {
  const folded = await readFolded(db);
  const totalSource = buildSource({ ...request, by: "total" }, folded, null);
  const points = await readPoints(db, request, totalSource);
  const total = await readTotals(db, totalSource);
  if (request.by === "total") return { total, points, ranking: [], series: [] };
  const ranking = await rankUsage(db, request, folded, bounds.ranked);
  if (bounds.drawn === 0) return { total, points, ranking, series: [] };
  const ids = ranking.slice(0, bounds.drawn).map(({ id }) => id);
  const pointsByName = await readPointsByName(db, request, buildSource(request, folded, ids));
  return { total, points, ranking, series: ids.map((id) => ({ id, points: pointsByName.get(id) ?? [] })) };
}

/** Totals of a range, as in `readSplitUsage`. */
export async function readTotalUsage(db: Db, request: Omit<SeriesRequest, "by">): Promise<UsageTotals> {
  return readTotals(db, buildSource({ ...request, by: "total" }, await readFolded(db), null));
}

/**
 * Whether the split is available. All callers together can only be split by what the roll-ups store, and a scope
 * cannot be split by itself.
 */
export function canSplit({ scope, model, by }: Pick<SeriesRequest, "scope" | "model" | "by">): boolean {
  const kind = getScopeKind(scope);
  switch (by) {
    case "total":
    case "model":
      return true;
    case "key":
      return kind !== "all" || model === undefined;
    case "user":
      return kind === "all" && model === undefined;
    case "group":
      return kind === "user" || (kind === "all" && model === undefined);
  }
}

type ScopeKind = "all" | "key" | "user" | "group" | "several";

function getScopeKind({ keyId, userId, groupId }: SeriesScope): ScopeKind {
  const kinds = [
    ...(keyId === undefined ? [] : ["key" as const]),
    ...(userId === undefined ? [] : ["user" as const]),
    ...(groupId === undefined ? [] : ["group" as const]),
  ];
  if (kinds.length > 1) return "several";
  return kinds[0] ?? "all";
}

/** SQL with the columns at_ms, name and every sum. `?` stands for a value on both engines. */
interface Source {
  text: string;
  values: SqlValue[];
}

/** `ids`: the keys, users, groups or models to include; null for all. */
function buildSource(request: SeriesRequest, folded: FoldedBounds, ids: readonly string[] | null): Source {
  const { fromMs, toMs } = request;
  const within = (ms: number) => Math.min(toMs, Math.max(fromMs, ms));
  if (getScopeKind(request.scope) === "all" && (request.by === "total" || request.by === "model")) {
    const hoursMs = within(folded.hoursBeforeMs);
    const daysMs = request.granularity === "day" ? within(startOfDay(hoursMs)) : fromMs;
    return unionSources([
      buildAllPart("all", { ...request, toMs: daysMs }, ids),
      buildAllPart("all_hour", { ...request, fromMs: daysMs, toMs: hoursMs }, ids),
      buildHourPart({ ...request, fromMs: hoursMs }, ids),
    ]);
  }
  const daysMs = hasDays(request) ? within(folded.daysBeforeMs) : fromMs;
  return unionSources([
    buildDayPart({ ...request, toMs: daysMs }, ids),
    buildHourPart({ ...request, fromMs: daysMs }, ids),
  ]);
}

function unionSources(parts: readonly Source[]): Source {
  return {
    text: `(${parts.map(({ text }) => text).join(" UNION ALL ")}) AS used`,
    values: parts.flatMap(({ values }) => values),
  };
}

/** Before these times the daily roll-up equals the hourly one: its days, and its hours of all callers. */
interface FoldedBounds {
  daysBeforeMs: number;
  hoursBeforeMs: number;
}

async function readFolded(db: Db): Promise<FoldedBounds> {
  const { foldedAtMs } = await readFoldState(db);
  const certainBeforeMs = Math.max(0, foldedAtMs - FOLD_GRACE_MS);
  return {
    daysBeforeMs: await readFoldedBefore(db),
    hoursBeforeMs: Math.floor(certainBeforeMs / HOUR_MS) * HOUR_MS,
  };
}

/** Daily sums exist for each key, user and group, but not for combinations of them. */
function hasDays({ scope, by, granularity }: SeriesRequest): boolean {
  const kind = getScopeKind(scope);
  return granularity === "day" && kind !== "several" && !(by === "group" && kind !== "all");
}

const SUMS = SUM_COLUMNS.join(", ");

function buildAllPart(
  scope: "all" | "all_hour",
  { fromMs, toMs, model, by }: SeriesRequest,
  ids: readonly string[] | null,
): Source {
  const models = model === undefined ? ids : [model];
  return {
    text: `SELECT day_ms AS at_ms, ${by === "model" ? "public_model" : "''"} AS name, ${SUMS} FROM usage_day
      WHERE scope = ? AND scope_id = '' AND day_ms >= ? AND day_ms < ?
      ${models === null ? "" : `AND public_model IN (${placeholders(models)})`}`,
    values: [scope, fromMs, toMs, ...(models ?? [])],
  };
}

function buildDayPart(request: SeriesRequest, ids: readonly string[] | null): Source {
  const { scope, by, model, fromMs, toMs } = request;
  const isOwners = by === "key" || by === "user" || by === "group";
  // Scopes that end with _sum have all models in one row.
  const rollUpScope = isOwners ? (model === undefined ? `${by}_sum` : by) : getScopeKind(scope);
  const owner = isOwners ? buildOwnerCondition(request, ids) : { text: "= ?", values: [scopeId(scope)] };
  const models = model !== undefined ? [model] : by === "model" ? ids : null;
  const name = isOwners ? "scope_id" : by === "model" ? "public_model" : "''";
  return {
    text: `SELECT day_ms AS at_ms, ${name} AS name, ${SUMS} FROM usage_day
      WHERE scope = ? AND scope_id ${owner.text} AND day_ms >= ? AND day_ms < ?
      ${models === null ? "" : `AND public_model IN (${placeholders(models)})`}`,
    values: [rollUpScope, ...owner.values, fromMs, toMs, ...(models ?? [])],
  };
}

function buildOwnerCondition({ scope }: SeriesRequest, ids: readonly string[] | null): Source {
  if (ids !== null) return { text: `IN (${placeholders(ids)})`, values: [...ids] };
  if (scope.keyId !== undefined) return { text: "= ?", values: [scope.keyId] };
  return { text: "IN (SELECT id FROM api_key WHERE user_id = ?)", values: [scope.userId ?? ""] };
}

function buildHourPart(
  { scope, by, model, fromMs, toMs }: SeriesRequest,
  ids: readonly string[] | null,
): Source {
  const conditions = ["hour_ms >= ? AND hour_ms < ?"];
  const values: SqlValue[] = [fromMs, toMs];
  const where = (condition: string, ...params: readonly SqlValue[]) => {
    conditions.push(condition);
    values.push(...params);
  };
  if (scope.keyId !== undefined) where("key_id = ?", scope.keyId);
  if (scope.userId !== undefined) where("key_id IN (SELECT id FROM api_key WHERE user_id = ?)", scope.userId);
  // A group's keys are its current ones, as in the daily roll-up.
  if (scope.groupId !== undefined) {
    if (by === "key" && getScopeKind(scope) === "group") {
      where("key_id IN (SELECT id FROM api_key WHERE group_id = ?)", scope.groupId);
    } else where("usage_hour.group_id = ?", scope.groupId);
  }
  if (model !== undefined) where("public_model = ?", model);
  // Some keys have no user.
  if (by === "user") where("api_key.user_id IS NOT NULL");
  if (ids !== null && by !== "total") {
    where(`${by === "user" ? "api_key.user_id" : HOUR_NAMES[by]} IN (${placeholders(ids)})`, ...ids);
  }
  const from = by === "user" ? "usage_hour JOIN api_key ON api_key.id = key_id" : "usage_hour";
  return {
    text: `SELECT hour_ms AS at_ms, ${HOUR_NAMES[by]} AS name, ${SUMS} FROM ${from} WHERE ${conditions.join(" AND ")}`,
    values,
  };
}

const HOUR_NAMES: Readonly<Record<SeriesSplit, string>> = {
  total: "''",
  model: "public_model",
  key: "key_id",
  user: "api_key.user_id",
  group: "usage_hour.group_id",
};

function scopeId({ keyId, userId, groupId }: SeriesScope): string {
  return keyId ?? userId ?? groupId ?? "";
}

async function rankUsage(
  db: Db,
  request: SeriesRequest,
  folded: FoldedBounds,
  limit: number,
): Promise<SplitUsage["ranking"]> {
  const kind = getScopeKind(request.scope);
  const { by } = request;
  if (by !== "total" && by !== "model" && (kind === "all" || (kind === "group" && by === "key"))) {
    const within =
      kind === "all" ? ({ kind } as const) : ({ kind: "group", id: request.scope.groupId ?? "" } as const);
    const top = await readTopUsage(db, {
      rankBy: by,
      within,
      fromMs: request.fromMs,
      toMs: request.toMs,
      limit,
    });
    // Owners whose first usage is recent are not folded yet.
    const sinceMs = Math.max(request.fromMs, folded.hoursBeforeMs);
    const recent = await selectRanking(
      db,
      unionSources([buildHourPart({ ...request, fromMs: sinceMs }, null)]),
      limit,
    );
    const ids = new Set([...top, ...recent].map(({ id }) => id));
    return selectRanking(db, buildSource(request, folded, [...ids]), limit);
  }
  return selectRanking(db, buildSource(request, folded, null), limit);
}

async function selectRanking(
  db: Db,
  { text: from, values }: Source,
  limit: number,
): Promise<SplitUsage["ranking"]> {
  const rows = await db.sql.text(
    numberPlaceholders(
      db.engine,
      `SELECT name, ${TOTALS} FROM ${from} GROUP BY name
       ORDER BY SUM(cost_nano) DESC, SUM(requests + refused) DESC, name LIMIT ${limit}`,
    ),
    values,
  );
  return rows.map((row) => ({ id: text(row, "name"), totals: toTotals(row) }));
}

async function readTotals(db: Db, { text: from, values }: Source): Promise<UsageTotals> {
  const [row] = await db.sql.text(numberPlaceholders(db.engine, `SELECT ${TOTALS} FROM ${from}`), values);
  if (row === undefined) throw new Error("A sum returned no row.");
  return toTotals(row);
}

async function readPoints(db: Db, request: SeriesRequest, source: Source): Promise<SeriesPoint[]> {
  return [...(await readPointsByName(db, request, source)).values()].flat();
}

async function readPointsByName(
  db: Db,
  { granularity }: SeriesRequest,
  { text: from, values }: Source,
): Promise<Map<string, SeriesPoint[]>> {
  const unitMs = granularity === "day" ? DAY_MS : HOUR_MS;
  const at = `at_ms - at_ms % ${unitMs}`;
  const rows = await db.sql.text(
    numberPlaceholders(
      db.engine,
      `SELECT name, ${at} AS unit_ms, ${TOTALS} FROM ${from} GROUP BY name, ${at} ORDER BY 2`,
    ),
    values,
  );
  const points = new Map<string, SeriesPoint[]>();
  for (const row of rows) {
    const name = text(row, "name");
    const point = { atMs: integer(row, "unit_ms"), ...toTotals(row) };
    const present = points.get(name);
    if (present === undefined) points.set(name, [point]);
    else present.push(point);
  }
  return points;
}

/** An empty list is invalid SQL; NULL matches nothing. */
function placeholders(ids: readonly string[]): string {
  return ids.length === 0 ? "NULL" : ids.map(() => "?").join(", ");
}
