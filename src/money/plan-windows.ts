/**
 * Start and end of plan windows. Calendar windows follow the wall clock of the plan's time zone, rolling windows the
 * start of the subscription. Boundaries never decrease as the window number grows, so windows tile time in every time
 * zone: a day that a country skips is an empty window.
 */

import { Cache } from "../base/cache.ts";
import { DAY_MS, WEEK_MS } from "../base/time.ts";
import type { PlanPeriod, PlanWindow } from "../records/plan.ts";

export interface WindowInstants {
  readonly startsAtMs: number;
  /** The first moment after the window. */
  readonly endsAtMs: number;
}

/** More than the offset of any past or present time zone. */
const OFFSET_MS_MAX = 16 * 3_600_000;
/** 1 January 1970 was a Thursday: Mondays are three days before a whole number of weeks. */
const MONDAY_MS = -3 * DAY_MS;

/** The last window of each time zone and period: a time zone lookup costs a hundred times as much. */
const lastWindows = new Cache<string, WindowInstants>({ name: "last plan windows", entriesMax: 10_000 });

export function windowAt(
  window: Pick<PlanWindow, "per" | "counted">,
  timeZone: string,
  subscriptionStartMs: number,
  atMs: number,
): WindowInstants {
  const { per, counted } = window;
  const isRolling = counted === "rolling";
  if (isRolling && per !== "month")
    return evenSpan(per === "day" ? DAY_MS : WEEK_MS, subscriptionStartMs, atMs);
  const name = isRolling ? `${timeZone} ${subscriptionStartMs}` : `${timeZone} ${per}`;
  const last = lastWindows.get(name);
  if (last !== undefined && last.startsAtMs <= atMs && atMs < last.endsAtMs) return last;
  const boundary = isRolling
    ? (number: number) => monthsAfter(subscriptionStartMs, number, timeZone)
    : (number: number) => firstMomentAt(calendarStart(per, number), timeZone);
  const localMs = toLocalMs(atMs, timeZone);
  const guess = isRolling
    ? monthNumber(localMs) - monthNumber(toLocalMs(subscriptionStartMs, timeZone))
    : calendarNumber(per, localMs);
  const span = spanAround(boundary, guess, atMs);
  lastWindows.set(name, span);
  return span;
}

/** The same wall-clock time a number of months later; the 31st becomes the last day of a shorter month. */
export function monthsAfter(startMs: number, months: number, timeZone: string): number {
  if (months === 0) return startMs;
  const start = new Date(toLocalMs(startMs, timeZone));
  const monthStart = new Date(Date.UTC(start.getUTCFullYear(), start.getUTCMonth() + months, 1));
  const year = monthStart.getUTCFullYear();
  const month = monthStart.getUTCMonth();
  const lastDay = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
  const timeOfDayMs = start.getTime() - Math.floor(start.getTime() / DAY_MS) * DAY_MS;
  const localMs = Date.UTC(year, month, Math.min(start.getUTCDate(), lastDay)) + timeOfDayMs;
  return firstMomentAt(localMs, timeZone);
}

export function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat("en", { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

function evenSpan(lengthMs: number, startMs: number, atMs: number): WindowInstants {
  const startsAtMs = startMs + Math.floor((atMs - startMs) / lengthMs) * lengthMs;
  return { startsAtMs, endsAtMs: startsAtMs + lengthMs };
}

function spanAround(boundary: (number: number) => number, guess: number, atMs: number): WindowInstants {
  let number = guess;
  let startsAtMs = boundary(number);
  while (startsAtMs > atMs) startsAtMs = boundary(--number);
  let endsAtMs = boundary(++number);
  while (endsAtMs <= atMs) {
    startsAtMs = endsAtMs;
    endsAtMs = boundary(++number);
  }
  return { startsAtMs, endsAtMs };
}

/** Local times are represented as the UTC milliseconds of the same wall clock. */
function calendarNumber(per: PlanPeriod, localMs: number): number {
  if (per === "day") return Math.floor(localMs / DAY_MS);
  if (per === "week") return Math.floor((localMs - MONDAY_MS) / WEEK_MS);
  return monthNumber(localMs);
}

function calendarStart(per: PlanPeriod, number: number): number {
  if (per === "day") return number * DAY_MS;
  if (per === "week") return number * WEEK_MS + MONDAY_MS;
  return Date.UTC(1970, number, 1);
}

function monthNumber(localMs: number): number {
  const local = new Date(localMs);
  return (local.getUTCFullYear() - 1970) * 12 + local.getUTCMonth();
}

/** The first moment at which the wall clock shows this time or a later one. Clocks may skip a time or show it twice. */
function firstMomentAt(localMs: number, timeZone: string): number {
  let beforeMs = localMs - OFFSET_MS_MAX;
  let afterMs = localMs + OFFSET_MS_MAX;
  const offsetBefore = offsetAt(beforeMs, timeZone);
  const offsetAfter = offsetAt(afterMs, timeZone);
  if (offsetBefore === offsetAfter) return localMs - offsetBefore;
  while (afterMs - beforeMs > 1) {
    const middleMs = Math.floor((beforeMs + afterMs) / 2);
    if (offsetAt(middleMs, timeZone) === offsetBefore) beforeMs = middleMs;
    else afterMs = middleMs;
  }
  const changeMs = afterMs;
  if (localMs - offsetBefore < changeMs) return localMs - offsetBefore;
  return Math.max(changeMs, localMs - offsetAfter);
}

function toLocalMs(atMs: number, timeZone: string): number {
  return atMs + offsetAt(atMs, timeZone);
}

/** More entries than there are time zones. */
const dateFormats = new Cache<string, Intl.DateTimeFormat>({
  name: "date formats by time zone",
  entriesMax: 1_000,
});

function createDateFormat(timeZone: string): Intl.DateTimeFormat {
  const two = "2-digit";
  return new Intl.DateTimeFormat("en-US", {
    timeZone,
    hourCycle: "h23",
    year: "numeric",
    month: two,
    day: two,
    hour: two,
    minute: two,
    second: two,
  });
}

function offsetAt(atMs: number, timeZone: string): number {
  if (timeZone === "UTC") return 0;
  const format = dateFormats.getOrCreate(timeZone, createDateFormat);
  // "MM/DD/YYYY, HH:MM:SS"
  const [month, day, year, hour, minute, second] = (format.format(atMs).match(/\d+/g) ?? []).map(Number);
  const localMs = Date.UTC(year ?? 0, (month ?? 0) - 1, day, hour, minute, second);
  return localMs - Math.floor(atMs / 1_000) * 1_000;
}
