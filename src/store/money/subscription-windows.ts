/**
 * What was used of a subscription in a span of time, and what is held of it for requests under way. A row sums the
 * entries and holds of its span, so a span that has no row yet, because it is new or because the plan was changed,
 * loses nothing: it is summed when it is first asked for, and added to from then on.
 */

import type { Nano } from "../../money/nano.ts";
import { PLAN_PERIODS, type PlanPeriod } from "../../records.ts";
import { type Db, placeholder, type Row } from "../engine/db.ts";
import { insertRows } from "../engine/insert-rows.ts";
import { integer, nano, oneOf, text } from "../engine/row.ts";
import { selectIn } from "../engine/select-in.ts";
import { BY_HAND, chargedNano } from "./entries.ts";

export interface WindowSpan {
  subscriptionId: string;
  per: PlanPeriod;
  startsAtMs: number;
  endsAtMs: number;
}

export interface WindowUse {
  usedNano: Nano;
  heldNano: Nano;
}

export interface OpenedWindow extends WindowSpan, WindowUse {}

/** By subscription. */
export type OpenedWindows = ReadonlyMap<string, readonly OpenedWindow[]>;

const KEY_COLUMNS = ["subscription_id", "ends_at_ms", "starts_at_ms", "per"];
const COLUMNS = [...KEY_COLUMNS, "used_nano", "held_nano"];
const READ = `subscription_id, per, starts_at_ms, ends_at_ms, CAST(used_nano AS TEXT) AS used_nano,
  CAST(held_nano AS TEXT) AS held_nano`;
/** In the place of what was used, until it is summed in the same transaction. */
const NOT_SUMMED = -1;

/** What the ledger and the holds say about a span; the arguments are SQL. A refund counts at the time of its charge. */
function sums(
  subscriptionId: string,
  startsAt: string,
  endsAt: string,
): Record<"charged" | "used" | "held", string> {
  const within = (column: string) => `${column} >= ${startsAt} AND ${column} < ${endsAt}`;
  const charged = `COALESCE((SELECT SUM(${chargedNano("e")}) FROM entry e WHERE e.subscription_id = ${subscriptionId}
      AND e.kind IN ('charge', 'correction') AND ${within("e.at_ms")}), 0)`;
  return {
    charged,
    used: `CAST(${charged}
      - COALESCE((SELECT SUM(r.amount_nano) FROM entry r JOIN entry c ON c.id = 'charge:' || r.request_id
      WHERE r.subscription_id = ${subscriptionId} AND r.kind = 'refund' AND r.at_ms >= ${startsAt}
      AND ${within("c.at_ms")}), 0) AS BIGINT)`,
    held: `CAST(COALESCE((SELECT SUM(h.amount_nano) FROM hold h WHERE h.subscription_id = ${subscriptionId}
      AND ${within("h.at_ms")}), 0) AS BIGINT)`,
  };
}

const OWN_SUMS = sums(
  "subscription_window.subscription_id",
  "subscription_window.starts_at_ms",
  "subscription_window.ends_at_ms",
);

/** Those that are not over, and those that are still to come by a clock that was set back. */
export async function readOpened(
  db: Db,
  subscriptionIds: readonly string[],
  nowMs: number,
): Promise<OpenedWindows> {
  return grouped(await rowsAfter(db, subscriptionIds, nowMs));
}

/** The windows of locked subscriptions, in the order of the spans. Missing ones are made. */
export async function openWindows(
  tx: Db,
  spans: readonly WindowSpan[],
  opened: OpenedWindows,
): Promise<WindowUse[]> {
  const found = spans.map((span) => useIn(opened, span));
  const missing = spans.filter((_, i) => found[i] === undefined);
  if (missing.length === 0) return found.filter((use) => use !== undefined);
  const rows = missing.map((span) => [...keyOf(span), NOT_SUMMED, 0]);
  await insertRows(tx, "subscription_window", COLUMNS, rows);
  const summed = await selectIn(
    tx,
    `UPDATE subscription_window SET used_nano = ${OWN_SUMS.used}, held_nano = ${OWN_SUMS.held}
     WHERE used_nano = ${NOT_SUMMED} AND ends_at_ms >= ${placeholder(tx.engine, 1)} AND subscription_id`,
    [...new Set(missing.map(({ subscriptionId }) => subscriptionId))],
    `RETURNING ${READ}`,
    [Math.min(...missing.map(({ endsAtMs }) => endsAtMs))],
  );
  const made = grouped(summed);
  return spans.map((span, i) => {
    const use = found[i] ?? useIn(made, span);
    if (use === undefined) throw new Error("The window of a subscription was not made.");
    return use;
  });
}

/** The same without making any, for those who only look. */
export async function readWindows(
  db: Db,
  spans: readonly WindowSpan[],
  opened: OpenedWindows,
): Promise<WindowUse[]> {
  const asked = sums("a.id", "a.starts", "a.ends");
  const at = (number: number, type: string) => `CAST(${placeholder(db.engine, number)} AS ${type})`;
  const uses: WindowUse[] = [];
  for (const span of spans) {
    const known = useIn(opened, span);
    if (known !== undefined) {
      uses.push(known);
      continue;
    }
    const rows = await db.sql.text(
      `SELECT CAST(${asked.used} AS TEXT) AS used_nano, CAST(${asked.held} AS TEXT) AS held_nano
       FROM (SELECT ${at(1, "TEXT")} AS id, ${at(2, "BIGINT")} AS starts, ${at(3, "BIGINT")} AS ends) a`,
      [span.subscriptionId, span.startsAtMs, span.endsAtMs],
    );
    uses.push(...rows.map(useOf));
  }
  return uses;
}

export interface WrongWindow extends WindowSpan {
  is: WindowUse;
  ought: WindowUse;
}

/** Rows that do not say what the ledger and the holds say: there are none, or something is wrong. */
export async function wrongWindows(db: Db, limit: number): Promise<WrongWindow[]> {
  // From refunds and holds to their windows, for they are few: each window would else read all entries after it.
  const movedIn = (amount: string, from: string, at: string) =>
    `(SELECT ${KEY_COLUMNS.map((column) => `span.${column}`).join(", ")}, SUM(${amount}) AS nano
      FROM ${from} JOIN subscription_window span ON span.subscription_id = moved.subscription_id
        AND span.ends_at_ms > ${at} AND span.starts_at_ms <= ${at}
      WHERE moved.subscription_id IS NOT NULL GROUP BY 1, 2, 3, 4)`;
  const refunds = `(SELECT subscription_id, request_id, amount_nano FROM entry
    WHERE ${BY_HAND} AND kind = 'refund') moved JOIN entry charge ON charge.id = 'charge:' || moved.request_id`;
  const same = (other: string) =>
    KEY_COLUMNS.map((column) => `${other}.${column} = subscription_window.${column}`).join(" AND ");
  const rows = await db.sql.text(
    `SELECT subscription_id, per, starts_at_ms, ends_at_ms, CAST(used_nano AS TEXT) AS used_nano,
       CAST(held_nano AS TEXT) AS held_nano, CAST(used_ought AS TEXT) AS used_ought,
       CAST(held_ought AS TEXT) AS held_ought
     FROM (
       SELECT subscription_window.*, CAST(${OWN_SUMS.charged} - COALESCE(back.nano, 0) AS BIGINT) AS used_ought,
         CAST(COALESCE(aside.nano, 0) AS BIGINT) AS held_ought
       FROM subscription_window
       LEFT JOIN ${movedIn("moved.amount_nano", refunds, "charge.at_ms")} back ON ${same("back")}
       LEFT JOIN ${movedIn("moved.amount_nano", "hold moved", "moved.at_ms")} aside ON ${same("aside")}
     ) w
     WHERE used_nano <> used_ought OR held_nano <> held_ought
     ORDER BY subscription_id, ends_at_ms, per LIMIT ${placeholder(db.engine, 1)}`,
    [limit],
  );
  return rows.map((row) => ({
    ...spanOf(row),
    is: useOf(row),
    ought: { usedNano: nano(row, "used_ought"), heldNano: nano(row, "held_ought") },
  }));
}

export interface WindowChange extends WindowUse {
  subscriptionId: string;
  /** The time of the hold, whatever the time of its settlement. */
  atMs: number;
}

/** Adds to every row whose span the change falls in. */
export async function addToWindows(tx: Db, changes: readonly WindowChange[]): Promise<void> {
  if (changes.length === 0) return;
  // Measured: SQLite finds and changes the rows of a subscription in half the time of reading and writing them.
  if (tx.engine === "sqlite") {
    for (const { subscriptionId, atMs, usedNano, heldNano } of merged(changes)) {
      await tx.sql`
        UPDATE subscription_window SET used_nano = used_nano + CAST(${usedNano.toString()} AS BIGINT),
          held_nano = held_nano + CAST(${heldNano.toString()} AS BIGINT)
        WHERE subscription_id = ${subscriptionId} AND ends_at_ms > ${atMs} AND starts_at_ms <= ${atMs}`;
    }
    return;
  }
  const earliestMs = changes.reduce((least, { atMs }) => Math.min(least, atMs), Number.MAX_SAFE_INTEGER);
  const bySubscription = Map.groupBy(changes, ({ subscriptionId }) => subscriptionId);
  const open = await rowsAfter(tx, [...bySubscription.keys()], earliestMs);
  const rows = open.flatMap((row) => {
    const span = spanOf(row);
    const own = (bySubscription.get(span.subscriptionId) ?? []).filter(
      ({ atMs }) => span.startsAtMs <= atMs && atMs < span.endsAtMs,
    );
    const usedNano = own.reduce((sum, change) => sum + change.usedNano, 0n);
    const heldNano = own.reduce((sum, change) => sum + change.heldNano, 0n);
    if (usedNano === 0n && heldNano === 0n) return [];
    return [[...keyOf(span), usedNano.toString(), heldNano.toString()]];
  });
  await insertRows(
    tx,
    "subscription_window",
    COLUMNS,
    rows,
    `ON CONFLICT (${KEY_COLUMNS.join(", ")}) DO UPDATE SET
     used_nano = subscription_window.used_nano + excluded.used_nano,
     held_nano = subscription_window.held_nano + excluded.held_nano`,
  );
}

/** Merges the changes of one subscription and time. */
function merged(changes: readonly WindowChange[]): Iterable<WindowChange> {
  if (changes.length === 1) return changes;
  const sums = new Map<string, WindowChange>();
  for (const change of changes) {
    const name = `${change.atMs} ${change.subscriptionId}`;
    const sum = sums.get(name);
    if (sum === undefined) sums.set(name, { ...change });
    else {
      sum.usedNano += change.usedNano;
      sum.heldNano += change.heldNano;
    }
  }
  return sums.values();
}

function grouped(rows: readonly Row[]): OpenedWindows {
  const opened = rows.map((row) => ({ ...spanOf(row), ...useOf(row) }));
  return Map.groupBy(opened, ({ subscriptionId }) => subscriptionId);
}

function useIn(
  opened: OpenedWindows,
  { subscriptionId, per, startsAtMs, endsAtMs }: WindowSpan,
): OpenedWindow | undefined {
  return opened
    .get(subscriptionId)
    ?.find((one) => one.endsAtMs === endsAtMs && one.startsAtMs === startsAtMs && one.per === per);
}

function rowsAfter(db: Db, subscriptionIds: readonly string[], atMs: number): Promise<Row[]> {
  const head = `SELECT ${READ} FROM subscription_window
    WHERE ends_at_ms > ${placeholder(db.engine, 1)} AND subscription_id`;
  return selectIn(db, head, subscriptionIds, "", [atMs]);
}

function keyOf({ subscriptionId, per, startsAtMs, endsAtMs }: WindowSpan) {
  return [subscriptionId, endsAtMs, startsAtMs, per];
}

function spanOf(row: Row): WindowSpan {
  return {
    subscriptionId: text(row, "subscription_id"),
    per: oneOf(row, "per", PLAN_PERIODS),
    startsAtMs: integer(row, "starts_at_ms"),
    endsAtMs: integer(row, "ends_at_ms"),
  };
}

function useOf(row: Row): WindowUse {
  return { usedNano: nano(row, "used_nano"), heldNano: nano(row, "held_nano") };
}
