/**
 * What the usage page draws: the sum over time, and the same split by model, key, user or group. All of it is exact to
 * the last committed request: days and hours that are surely folded come from the roll-up by day, the rest from the
 * hours of each key. The rows of single requests are not read here.
 */

import { type Db, placeholder, type SqlValue } from "../engine/db.ts";
import { integer, text } from "../engine/row.ts";
import { DAY_MS, FOLD_GRACE_MS, HOUR_MS, readFoldState, startOfDay } from "../usage/usage-day.ts";
import { SUM_COLUMNS, TOTALS, toTotals, type UsageTotals } from "../usage/usage-hour.ts";
import { readFoldedBefore } from "./key-usage.ts";
import { topUsage } from "./usage-charts.ts";

/** Nothing: everybody. Several: what belongs to all of them. */
export interface SeriesScope {
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
  /** The beginning of a day or hour. */
  fromMs: number;
  /** Before it. */
  toMs: number;
}

export interface SeriesPoint extends UsageTotals {
  atMs: number;
}

export interface SplitUsage {
  /** The totals of the range. */
  total: UsageTotals;
  /** In the order of time; a day or hour without use has none. */
  points: SeriesPoint[];
  /** The dearest first, then the most used. */
  ranking: { id: string; totals: UsageTotals }[];
  /** Of the first of the ranking. */
  series: { id: string; points: SeriesPoint[] }[];
}

export interface SeriesBounds {
  ranked: number;
  drawn: number;
}

export async function splitUsage(db: Db, asked: SeriesRequest, bounds: SeriesBounds): Promise<SplitUsage> {
  const folded = await readFolded(db);
  const whole = sourceOf({ ...asked, by: "total" }, folded, null);
  const points = await pointsOf(db, asked, whole);
  const total = await sumOf(db, whole);
  if (asked.by === "total") return { total, points, ranking: [], series: [] };
  const ranking = await rankingOf(db, asked, folded, bounds.ranked);
  const ids = ranking.slice(0, bounds.drawn).map(({ id }) => id);
  const drawn = await namedPoints(db, asked, sourceOf(asked, folded, ids));
  return { total, points, ranking, series: ids.map((id) => ({ id, points: drawn.get(id) ?? [] })) };
}

/** The sum of a range, as `splitUsage` has it. */
export async function totalUsage(db: Db, asked: Omit<SeriesRequest, "by">): Promise<UsageTotals> {
  return sumOf(db, sourceOf({ ...asked, by: "total" }, await readFolded(db), null));
}

/** Whether there is a split: of everybody only by what is kept of them, and what one has of something is not split by it. */
export function canSplit({ scope, model, by }: Pick<SeriesRequest, "scope" | "model" | "by">): boolean {
  const kind = kindOf(scope);
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

type Kind = "all" | "key" | "user" | "group" | "several";

function kindOf({ keyId, userId, groupId }: SeriesScope): Kind {
  const given = [
    ...(keyId === undefined ? [] : ["key" as const]),
    ...(userId === undefined ? [] : ["user" as const]),
    ...(groupId === undefined ? [] : ["group" as const]),
  ];
  if (given.length > 1) return "several";
  return given[0] ?? "all";
}

/** `?` stands for a value on both engines. It has at_ms, name and every sum. */
interface Source {
  text: string;
  values: SqlValue[];
}

/** `ids` are the keys, users or groups that are wanted, or the models; null: all of them. */
function sourceOf(asked: SeriesRequest, folded: Folded, ids: readonly string[] | null): Source {
  const { fromMs, toMs } = asked;
  const within = (ms: number) => Math.min(toMs, Math.max(fromMs, ms));
  if (kindOf(asked.scope) === "all" && (asked.by === "total" || asked.by === "model")) {
    const hoursMs = within(folded.hoursBeforeMs);
    const daysMs = asked.granularity === "day" ? within(startOfDay(hoursMs)) : fromMs;
    return joined([
      everybody("all", { ...asked, toMs: daysMs }, ids),
      everybody("all_hour", { ...asked, fromMs: daysMs, toMs: hoursMs }, ids),
      hourPart({ ...asked, fromMs: hoursMs }, ids),
    ]);
  }
  const daysMs = hasDays(asked) ? within(folded.daysBeforeMs) : fromMs;
  return joined([dayPart({ ...asked, toMs: daysMs }, ids), hourPart({ ...asked, fromMs: daysMs }, ids)]);
}

function joined(parts: readonly Source[]): Source {
  return {
    text: `(${parts.map(({ text }) => text).join(" UNION ALL ")}) AS used`,
    values: parts.flatMap(({ values }) => values),
  };
}

/** Before these the roll-up by day says what the hours of each key say: its days, and its hours of everybody. */
interface Folded {
  daysBeforeMs: number;
  hoursBeforeMs: number;
}

async function readFolded(db: Db): Promise<Folded> {
  const { foldedAtMs } = await readFoldState(db);
  const surelyMs = Math.max(0, foldedAtMs - FOLD_GRACE_MS);
  return {
    daysBeforeMs: await readFoldedBefore(db),
    hoursBeforeMs: Math.floor(surelyMs / HOUR_MS) * HOUR_MS,
  };
}

/** Days are kept of each key, user and group, but not of what one has in another. */
function hasDays({ scope, by, granularity }: SeriesRequest): boolean {
  const kind = kindOf(scope);
  return granularity === "day" && kind !== "several" && !(by === "group" && kind !== "all");
}

const SUMS = SUM_COLUMNS.join(", ");

function everybody(
  scope: "all" | "all_hour",
  { fromMs, toMs, model, by }: SeriesRequest,
  ids: readonly string[] | null,
): Source {
  const models = model === undefined ? ids : [model];
  return {
    text: `SELECT day_ms AS at_ms, ${by === "model" ? "public_model" : "''"} AS name, ${SUMS} FROM usage_day
      WHERE scope = ? AND scope_id = '' AND day_ms >= ? AND day_ms < ?
      ${models === null ? "" : `AND public_model IN (${list(models)})`}`,
    values: [scope, fromMs, toMs, ...(models ?? [])],
  };
}

function dayPart(asked: SeriesRequest, ids: readonly string[] | null): Source {
  const { scope, by, model, fromMs, toMs } = asked;
  const isOwners = by === "key" || by === "user" || by === "group";
  // Scopes that end with _sum have all models in one row.
  const kept = isOwners ? (model === undefined ? `${by}_sum` : by) : kindOf(scope);
  const owner = isOwners ? ownerIds(asked, ids) : { text: "= ?", values: [scopeId(scope)] };
  const models = model !== undefined ? [model] : by === "model" ? ids : null;
  const name = isOwners ? "scope_id" : by === "model" ? "public_model" : "''";
  return {
    text: `SELECT day_ms AS at_ms, ${name} AS name, ${SUMS} FROM usage_day
      WHERE scope = ? AND scope_id ${owner.text} AND day_ms >= ? AND day_ms < ?
      ${models === null ? "" : `AND public_model IN (${list(models)})`}`,
    values: [kept, ...owner.values, fromMs, toMs, ...(models ?? [])],
  };
}

function ownerIds({ scope }: SeriesRequest, ids: readonly string[] | null): Source {
  if (ids !== null) return { text: `IN (${list(ids)})`, values: [...ids] };
  if (scope.keyId !== undefined) return { text: "= ?", values: [scope.keyId] };
  return { text: "IN (SELECT id FROM api_key WHERE user_id = ?)", values: [scope.userId ?? ""] };
}

function hourPart({ scope, by, model, fromMs, toMs }: SeriesRequest, ids: readonly string[] | null): Source {
  const conditions = ["hour_ms >= ? AND hour_ms < ?"];
  const values: SqlValue[] = [fromMs, toMs];
  const where = (condition: string, ...wanted: readonly SqlValue[]) => {
    conditions.push(condition);
    values.push(...wanted);
  };
  if (scope.keyId !== undefined) where("key_id = ?", scope.keyId);
  if (scope.userId !== undefined) where("key_id IN (SELECT id FROM api_key WHERE user_id = ?)", scope.userId);
  // A group's keys are those that it has now, as in the roll-up by day.
  if (scope.groupId !== undefined) {
    if (by === "key" && kindOf(scope) === "group") {
      where("key_id IN (SELECT id FROM api_key WHERE group_id = ?)", scope.groupId);
    } else where("usage_hour.group_id = ?", scope.groupId);
  }
  if (model !== undefined) where("public_model = ?", model);
  // Some keys are nobody's.
  if (by === "user") where("api_key.user_id IS NOT NULL");
  if (ids !== null && by !== "total") {
    where(`${by === "user" ? "api_key.user_id" : HOUR_NAMES[by]} IN (${list(ids)})`, ...ids);
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

async function rankingOf(
  db: Db,
  asked: SeriesRequest,
  folded: Folded,
  limit: number,
): Promise<SplitUsage["ranking"]> {
  const kind = kindOf(asked.scope);
  const { by } = asked;
  if (by !== "total" && by !== "model" && (kind === "all" || (kind === "group" && by === "key"))) {
    const within =
      kind === "all" ? ({ kind } as const) : ({ kind: "group", id: asked.scope.groupId ?? "" } as const);
    const top = await topUsage(db, { of: by, within, fromMs: asked.fromMs, toMs: asked.toMs, limit });
    // Whoever has come only now is not folded yet.
    const sinceMs = Math.max(asked.fromMs, folded.hoursBeforeMs);
    const recent = await ranked(db, joined([hourPart({ ...asked, fromMs: sinceMs }, null)]), limit);
    const ids = new Set([...top, ...recent].map(({ id }) => id));
    return ranked(db, sourceOf(asked, folded, [...ids]), limit);
  }
  return ranked(db, sourceOf(asked, folded, null), limit);
}

async function ranked(db: Db, { text: from, values }: Source, limit: number): Promise<SplitUsage["ranking"]> {
  const rows = await db.sql.text(
    numbered(
      db,
      `SELECT name, ${TOTALS} FROM ${from} GROUP BY name
       ORDER BY SUM(cost_nano) DESC, SUM(requests + refused) DESC, name LIMIT ${limit}`,
    ),
    values,
  );
  return rows.map((row) => ({ id: text(row, "name"), totals: toTotals(row) }));
}

async function sumOf(db: Db, { text: from, values }: Source): Promise<UsageTotals> {
  const [row] = await db.sql.text(numbered(db, `SELECT ${TOTALS} FROM ${from}`), values);
  if (row === undefined) throw new Error("A sum without rows is still one row.");
  return toTotals(row);
}

async function pointsOf(db: Db, asked: SeriesRequest, source: Source): Promise<SeriesPoint[]> {
  return [...(await namedPoints(db, asked, source)).values()].flat();
}

async function namedPoints(
  db: Db,
  { granularity }: SeriesRequest,
  { text: from, values }: Source,
): Promise<Map<string, SeriesPoint[]>> {
  const unitMs = granularity === "day" ? DAY_MS : HOUR_MS;
  const at = `at_ms - at_ms % ${unitMs}`;
  const rows = await db.sql.text(
    numbered(db, `SELECT name, ${at} AS unit_ms, ${TOTALS} FROM ${from} GROUP BY name, ${at} ORDER BY 2`),
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

/** An empty list is no SQL: nothing has this name. */
function list(ids: readonly string[]): string {
  return ids.length === 0 ? "NULL" : ids.map(() => "?").join(", ");
}

function numbered(db: Db, statement: string): string {
  let next = 1;
  return statement.replaceAll("?", () => placeholder(db.engine, next++));
}
