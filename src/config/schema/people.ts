/** Schemas of users, subscriptions and keys. */

import { z } from "zod";
import { isTimeZone } from "../../money/plan-windows.ts";
import { KEY_FALLBACK } from "../../records/fallback.ts";
import { COUNTED, PLAN_PERIODS, RENEWALS } from "../../records/plan.ts";
import { ROLES, USER_STATUSES } from "../../records/user.ts";
import { hasKeyPrefix, hasValidChecksum } from "../../secrets/api-key.ts";
import { limits } from "../limits/product-limits.ts";
import {
  describeFields,
  email,
  instant,
  name,
  start,
  text,
  usd,
  wholeNumber,
  windowUsd,
} from "./basic-values.ts";
import { callerLimits } from "./limits.ts";

const planWindow = describeFields({
  per: { is: z.enum(PLAN_PERIODS), means: "the length of the window" },
  usd: { is: windowUsd, means: "the quota per window, in USD" },
  counted: {
    is: z.enum(COUNTED).default("calendar"),
    means:
      "`calendar`: windows start at midnight, on Monday or on the 1st in the plan's time zone. `rolling`: windows start with the subscription and repeat every 24 hours, 7 days, or month on the same day (the last day of a shorter month)",
  },
});

export const plan = describeFields({
  name: { is: name, means: "the name of the plan" },
  time_zone: {
    is: text("the name of a time zone, like UTC or Europe/Berlin", isTimeZone).default("UTC"),
    means: "the time zone of calendar windows",
  },
  windows: {
    is: z
      .array(planWindow)
      .refine((list) => list.length > 0 && new Set(list.map(({ per }) => per)).size === list.length, {
        error: "a list of at least one window, each of a different length",
      }),
    means: "the quotas of the plan; all of them apply",
  },
});

const subscription = describeFields({
  plan: { is: name, means: "the plan", also: "one of `plans`" },
  starts: {
    is: start.optional(),
    means: "the start; a date means the start of that day in UTC",
    leftOut: "the current start is kept; a new subscription starts when the file is applied",
  },
  ends: {
    is: instant.optional(),
    means: "the end; a date means the end of that day in UTC",
    leftOut: "no end; if it renews, one period after the start",
  },
  renews: {
    is: z.enum(RENEWALS).default("none"),
    means: "the period by which the subscription is extended at each end",
  },
  priority: {
    is: wholeNumber(0, 1_000).default(1),
    means:
      "the subscription with the lowest number is charged first; among equals the one that ends sooner, then the older one",
  },
}).refine(({ starts, ends }) => starts === undefined || ends === undefined || starts < ends, {
  error: "a time after starts",
  path: ["ends"],
});

export const PASSWORD_RULE = `a string of ${limits.passwordCharsMin} to ${limits.passwordCharsMax} characters`;
export function isPassword(value: string): boolean {
  return value.length >= limits.passwordCharsMin && value.length <= limits.passwordCharsMax;
}

export const user = describeFields({
  email: { is: email, means: "the user's address, case-insensitive" },
  role: {
    is: z.enum(ROLES).default("user"),
    means:
      "the user's rights in the console: an `admin` can see and change everything, a `user` only their own data. An `auditor` also sees usage, prices, balances, ledgers and the audit log of everyone, and opens no captures",
  },
  status: {
    is: z.enum(USER_STATUSES).optional(),
    means: "a `disabled` user cannot sign in, and the user's keys are rejected",
    leftOut: "the current status is kept; new users are `active`",
  },
  password: {
    is: text(PASSWORD_RULE, isPassword).optional(),
    means: "the password to sign in with; stored as an argon2id hash",
    leftOut: "the current password is kept, if there is one",
  },
  balance: {
    is: usd.optional(),
    means:
      "the opening balance, in USD. It is applied **once**, when the user is created. Later the [ledger](wallets.md) has the balance: `apply` ignores a different value here and prints a note. `export` omits the field, because the balance changes with every request",
    leftOut: "none",
  },
  limits: {
    is: callerLimits.optional(),
    means: "limits for **all keys** of the user together, across groups",
    leftOut: "unlimited",
  },
  groups: {
    is: z.array(name).default(() => []),
    means: "groups with `access: members` in which the user may create keys",
    also: "each one of `groups`",
  },
  subscriptions: { is: z.array(subscription).optional(), means: "the user's subscriptions", leftOut: "none" },
});

const KEY_SECRET_RULE = `a secret of ${limits.keySecretCharsMin} to ${limits.keySecretCharsMax} visible characters; a secret that begins with gwk_ must be complete`;
function isKeySecret(value: string): boolean {
  const long = value.length >= limits.keySecretCharsMin && value.length <= limits.keySecretCharsMax;
  // A secret in the gateway's format with a wrong checksum is rejected before the key lookup, so it must not be
  // stored.
  return long && /^[\x21-\x7e]+$/.test(value) && (!hasKeyPrefix(value) || hasValidChecksum(value));
}

export const key = describeFields({
  name: { is: name, means: "the name of the key", also: "unique per user" },
  user: {
    is: email.optional(),
    means: "the user that the key belongs to",
    leftOut: "none",
    also: "one of `users`",
  },
  group: { is: name, means: "the group of the key", also: "one of `groups`" },
  secret: {
    is: text(KEY_SECRET_RULE, isKeySecret).optional(),
    means:
      "the secret to import. A changed secret revokes the old key. A secret that was revoked or [rotated](#rotating-a-key) cannot be used again",
    leftOut: "the current secret is kept; for a new key, a secret is generated and shown once",
  },
  expires: {
    is: instant.optional(),
    means: "when the key expires; a date means the end of that day in UTC",
    leftOut: "never",
  },
  limits: {
    is: callerLimits.optional(),
    means: "limits of this key, in addition to the group's limits for each key",
    leftOut: "unlimited",
  },
  request_policy: {
    is: name.optional(),
    means: "the [request policy](policies.md) of this key, in addition to that of the group",
    leftOut: "that of the group alone",
    also: "one of `request_policies`",
  },
  fallback: {
    is: z.enum(KEY_FALLBACK).optional(),
    means:
      "whether requests of this key may take the [fallback steps](routing.md) of its group and models. The owner of a key may change it to `deny` only",
    leftOut: "`allow`",
  },
});
