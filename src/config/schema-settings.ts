/**
 * How the place is run, beside what it serves: who may register, what is kept, mail, alerts. A section that the file
 * leaves out stays as it was; one that it has is taken as a whole.
 */

import { z } from "zod";
import { DEFAULT_ALERTS, REGISTRATIONS, SMTP_SECURITY } from "../records.ts";
import { limits } from "./limits.ts";
import { fields, host, isEmail, name, postUrl, text, wholeNumber, windowUsd } from "./schema-words.ts";
import { durationMs, durationText } from "./usage-limits.ts";

export const registration = z.enum(REGISTRATIONS);

/** Null keeps them for ever. Below a week, a settlement that comes late might be counted twice. */
const usageRowsKept = text(
  `a duration like 90d, at least ${durationText(limits.usageRowsKeptMsMin)}, or forever`,
  (value) => value === "forever" || (durationMs(value) ?? 0) >= limits.usageRowsKeptMsMin,
).transform((value) => (value === "forever" ? null : durationMs(value)));

export const retention = fields({ usage_rows: usageRowsKept.optional() });

const SENDER_RULE = "an e-mail address, or a name and one, like Gateway <gateway@example.com>";

/** It becomes a header, so nothing in it may end one. */
function isSender(value: string): boolean {
  const address = /^(?:[^<>"\p{C}]{1,100} )?<([^<>]+)>$/u.exec(value)?.[1] ?? value;
  return isEmail(address);
}

const LOOPBACK = /^(localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|::1)$/i;

export const smtp = fields({
  enabled: z.boolean().default(true),
  host: host.optional(),
  port: wholeNumber(1, 65_535).default(587),
  security: z.enum(SMTP_SECURITY).default("starttls"),
  user: text("the name to sign in with, 1 to 256 characters", (value) =>
    /^[^\p{C}]{1,256}$/u.test(value),
  ).optional(),
  password: text("a password of 1 to 1024 characters", (value) =>
    /^[^\p{C}]{1,1024}$/u.test(value),
  ).optional(),
  from: text(SENDER_RULE, isSender).optional(),
  private_network: z.boolean().default(false),
})
  .refine((given) => !given.enabled || given.host !== undefined, {
    error: "a host name or address, like smtp.example.com",
    path: ["host"],
  })
  .refine((given) => !given.enabled || given.from !== undefined, { error: SENDER_RULE, path: ["from"] })
  .refine((given) => given.user !== undefined || given.password === undefined, {
    error: "given together with password: it is the name to sign in with",
    path: ["user"],
  })
  .refine(
    (given) =>
      given.security !== "none" || given.user === undefined || LOOPBACK.test(given.host ?? "localhost"),
    {
      error: "tls or starttls where somebody signs in: anybody on the way could read the password",
      path: ["security"],
    },
  );

const webhook = fields({
  name,
  url: postUrl,
  secret: text("a secret of 16 to 256 visible characters", (value) =>
    /^[\x21-\x7e]{16,256}$/.test(value),
  ).optional(),
  private_network: z.boolean().default(false),
  enabled: z.boolean().default(true),
});

const { accountParked, poolEmpty, spend, errorRate } = DEFAULT_ALERTS;

const WATCHED_MS_MAX = 3_600_000;
const span = (minMs: number) =>
  text(`a duration from ${durationText(minMs)} to ${durationText(WATCHED_MS_MAX)}, like 5m`, (value) => {
    const ms = durationMs(value);
    return ms !== null && ms >= minMs && ms <= WATCHED_MS_MAX;
  }).transform((value) => durationMs(value) ?? minMs);

const isOn = (byDefault: boolean) => z.boolean().default(byDefault);

export const alerts = fields({
  webhooks: z
    .array(webhook)
    .max(limits.webhooksMax, { error: `a list of at most ${limits.webhooksMax}` })
    .refine((list) => new Set(list.map((one) => one.name)).size === list.length, {
      error: "a list in which every name stands once",
    })
    .default(() => []),
  account_parked: fields({ enabled: isOn(accountParked.enabled) }).optional(),
  pool_empty: fields({
    enabled: isOn(poolEmpty.enabled),
    for: span(1_000).default(poolEmpty.forMs),
  }).optional(),
  spend: fields({ enabled: isOn(spend.enabled), usd_per_day: windowUsd.default(spend.usdPerDay) }).optional(),
  error_rate: fields({
    enabled: isOn(errorRate.enabled),
    percent: wholeNumber(1, 100).default(errorRate.percent),
    over: span(60_000).default(errorRate.overMs),
    min_requests: wholeNumber(1, 1_000_000).default(errorRate.requestsMin),
  }).optional(),
});
