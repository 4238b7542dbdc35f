/** Formats numbers, money and times in a language. */

import type { Language } from "./language.ts";

export interface Format {
  number(value: number): string;
  /** 12.3K. */
  compact(value: number): string;
  percent(share: number): string;
  /** USD as the API writes it: a decimal text. Two decimals, or as many as a small amount needs. */
  money(decimal: string): string;
  /** A remaining amount, rounded down. */
  moneyLeft(decimal: string): string;
  /** Every digit. */
  moneyExact(decimal: string): string;
  dateTime(ms: number): string;
  /** To the millisecond and with its zone: for titles and the inspector. */
  dateTimeExact(ms: number): string;
  date(ms: number): string;
  /** A day in UTC, as the roll-ups have it. */
  utcDay(ms: number): string;
  time(ms: number): string;
  /** To the second; without the year if it is the current one. */
  moment(ms: number, nowMs: number): string;
  /** "3 minutes ago", "in 2 days". */
  relative(ms: number, nowMs: number): string;
  /** 830 ms, 2.4 s, 3 min. */
  duration(ms: number): string;
  list(items: readonly string[]): string;
}

const LOCALES: Readonly<Record<Language, string>> = { en: "en", zh: "zh-CN" };

const RELATIVE_UNITS = [
  ["year", 365 * 86_400_000],
  ["month", 30 * 86_400_000],
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
  ["second", 1_000],
] as const;

export function openFormat(language: Language): Format {
  const locale = LOCALES[language];
  const list = new Intl.ListFormat(locale, { type: "conjunction" });
  return {
    ...openNumbers(locale),
    ...openMoney(locale),
    ...openTimes(locale),
    relative: openRelative(locale),
    duration: openDuration(locale),
    list: (items) => list.format(items),
  };
}

function openNumbers(locale: string): Pick<Format, "number" | "compact" | "percent"> {
  const whole = new Intl.NumberFormat(locale, { maximumFractionDigits: 2 });
  const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
  const percent = new Intl.NumberFormat(locale, { style: "percent", maximumFractionDigits: 1 });
  return {
    number: (value) => whole.format(value),
    compact: (value) => (Math.abs(value) < 10_000 ? whole.format(value) : compact.format(value)),
    percent: (share) => percent.format(share),
  };
}

function openMoney(locale: string): Pick<Format, "money" | "moneyLeft" | "moneyExact"> {
  return {
    money: openDollars(locale, "halfExpand"),
    moneyLeft: openDollars(locale, "floor"),
    moneyExact: (decimal) => (decimal.startsWith("-") ? `−$${decimal.slice(1)}` : `$${decimal}`),
  };
}

function openDollars(locale: string, roundingMode: "halfExpand" | "floor"): (decimal: string) => string {
  const usd = { style: "currency", currency: "USD", currencyDisplay: "narrowSymbol", roundingMode } as const;
  const cents = new Intl.NumberFormat(locale, usd);
  const small = new Intl.NumberFormat(locale, { ...usd, maximumSignificantDigits: 3 });
  return (decimal) => {
    const value = Number(decimal);
    return value !== 0 && Math.abs(value) < 0.1 ? small.format(value) : cents.format(value);
  };
}

type Times = Pick<Format, "dateTime" | "dateTimeExact" | "date" | "utcDay" | "time" | "moment">;

function openTimes(locale: string): Times {
  const open = (options: Intl.DateTimeFormatOptions) => new Intl.DateTimeFormat(locale, options);
  const clock = { hour: "2-digit", minute: "2-digit" } as const;
  const toSecond = { month: "short", day: "numeric", ...clock, second: "2-digit" } as const;
  const dateTime = open({ dateStyle: "medium", timeStyle: "short" });
  const exact = open({
    year: "numeric",
    ...toSecond,
    fractionalSecondDigits: 3,
    timeZoneName: "short",
  });
  const date = open({ dateStyle: "medium" });
  const utcDay = open({ month: "short", day: "numeric", timeZone: "UTC" });
  const time = open(clock);
  const moment = open(toSecond);
  const momentWithYear = open({ ...toSecond, year: "numeric" });
  return {
    dateTime: (ms) => dateTime.format(ms),
    dateTimeExact: (ms) => exact.format(ms),
    date: (ms) => date.format(ms),
    utcDay: (ms) => utcDay.format(ms),
    time: (ms) => time.format(ms),
    moment: (ms, nowMs) =>
      (new Date(ms).getFullYear() === new Date(nowMs).getFullYear() ? moment : momentWithYear).format(ms),
  };
}

function openRelative(locale: string): Format["relative"] {
  const relative = new Intl.RelativeTimeFormat(locale, { numeric: "auto" });
  return (ms, nowMs) => {
    const difference = ms - nowMs;
    const [name, unitMs] =
      RELATIVE_UNITS.find(([, unitMs]) => Math.abs(difference) >= unitMs) ?? (["second", 1_000] as const);
    return relative.format(Math.round(difference / unitMs), name);
  };
}

function openDuration(locale: string): Format["duration"] {
  const open = (unit: string, maximumFractionDigits: number) =>
    new Intl.NumberFormat(locale, { style: "unit", unit, unitDisplay: "short", maximumFractionDigits });
  const milliseconds = open("millisecond", 0);
  const seconds = open("second", 1);
  const minutes = open("minute", 1);
  const hours = open("hour", 1);
  return (ms) => {
    if (ms < 1_000) return milliseconds.format(ms);
    if (ms < 60_000) return seconds.format(ms / 1_000);
    return ms < 3_600_000 ? minutes.format(ms / 60_000) : hours.format(ms / 3_600_000);
  };
}
