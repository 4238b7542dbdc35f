/** Schemas of users, subscriptions and keys. */

import { z } from "zod";
import { isTimeZone } from "../../money/plan-windows.ts";
import { COUNTED, PLAN_PERIODS, RENEWALS, USER_STATUSES } from "../../records.ts";
import { claimsOurForm, hasValidChecksum } from "../../secrets/api-key.ts";
import { limits } from "../product-limits.ts";
import { callerLimits } from "./limits.ts";
import { described, email, instant, name, start, text, usd, wholeNumber, windowUsd } from "./words.ts";

const planWindow = described({
  per: { is: z.enum(PLAN_PERIODS), means: "the length" },
  usd: { is: windowUsd, means: "how much may be used in each, in USD" },
  counted: {
    is: z.enum(COUNTED).default("calendar"),
    means:
      "`calendar`: from midnight, Monday or the 1st in the plan's time zone. `rolling`: from the subscription's start, every 24 hours, 7 days, or month on the same day (the last one of a shorter month)",
  },
});

export const plan = described({
  name: { is: name, means: "what it is called" },
  time_zone: {
    is: text("the name of a time zone, like UTC or Europe/Berlin", isTimeZone).default("UTC"),
    means: "where its days, weeks and months begin",
  },
  windows: {
    is: z
      .array(planWindow)
      .refine((list) => list.length > 0 && new Set(list.map(({ per }) => per)).size === list.length, {
        error: "a list of one window or more, each of another length",
      }),
    means: "what it grants; every one of them holds",
  },
});

const subscription = described({
  plan: { is: name, means: "which one", also: "one of `plans`" },
  starts: {
    is: start.optional(),
    means: "from when; a date is the beginning of that day, UTC",
    leftOut: "the present start is kept; for a new one, when it is applied",
  },
  ends: {
    is: instant.optional(),
    means: "until when; a date is the end of that day, UTC",
    leftOut: "open; if it renews, one period after the start",
  },
  renews: { is: z.enum(RENEWALS).default("none"), means: "at each end it goes on for another period" },
  priority: {
    is: wholeNumber(0, 1_000).default(1),
    means: "the lowest pays first; among equals the one that ends sooner, then the older one",
  },
}).refine(({ starts, ends }) => starts === undefined || ends === undefined || starts < ends, {
  error: "a time after starts",
  path: ["ends"],
});

export const PASSWORD_RULE = `a string of ${limits.passwordCharsMin} to ${limits.passwordCharsMax} characters`;
export function isPassword(value: string): boolean {
  return value.length >= limits.passwordCharsMin && value.length <= limits.passwordCharsMax;
}

export const user = described({
  email: { is: email, means: "who it is; case makes no difference" },
  role: {
    is: z.enum(["admin", "user"]).default("user"),
    means: "what the person may see and change in the console: an `admin` everything, a `user` their own",
  },
  status: {
    is: z.enum(USER_STATUSES).optional(),
    means: "nobody `disabled` signs in, and their keys open nothing",
    leftOut: "it stays as it is; `active` to begin with",
  },
  password: {
    is: text(PASSWORD_RULE, isPassword).optional(),
    means: "what they sign in with; kept as an argon2id hash",
    leftOut: "the present one is kept, if there is one",
  },
  balance: {
    is: usd.optional(),
    means:
      "what the user begins with, in USD. Set **once**, when the user is created: afterwards the [ledger](billing.md#wallets) alone knows, a different value here changes nothing, and `apply` says so. `export` leaves it out, for the file would otherwise claim a balance that moves with every request",
    leftOut: "none",
  },
  limits: {
    is: callerLimits.optional(),
    means: "for **all keys** of this user together, whatever their groups",
    leftOut: "unlimited",
  },
  groups: {
    is: z.array(name).default(() => []),
    means: "groups with `access: members` that the user may make keys in",
    also: "each one of `groups`",
  },
  subscriptions: { is: z.array(subscription).optional(), means: "plans of the user", leftOut: "none" },
});

const KEY_SECRET_RULE = `a secret of ${limits.keySecretCharsMin} to ${limits.keySecretCharsMax} visible characters; one that begins with gwk_ must be whole`;
function isKeySecret(value: string): boolean {
  const long = value.length >= limits.keySecretCharsMin && value.length <= limits.keySecretCharsMax;
  // A secret in the gateway's format with a wrong checksum is rejected before the key lookup, so it must not be
  // stored.
  return long && /^[\x21-\x7e]+$/.test(value) && (!claimsOurForm(value) || hasValidChecksum(value));
}

export const key = described({
  name: { is: name, means: "what it is for", also: "once for each user" },
  user: { is: email.optional(), means: "whose it is", leftOut: "nobody's", also: "one of `users`" },
  group: { is: name, means: "what it is assigned to", also: "one of `groups`" },
  secret: {
    is: text(KEY_SECRET_RULE, isKeySecret).optional(),
    means:
      "import this secret. A changed one revokes the old key; neither a revoked one nor one that was [rotated](#rotating-a-key) away comes back",
    leftOut: "the present one is kept; for a new key one is made and shown once",
  },
  expires: {
    is: instant.optional(),
    means: "the key works up to then; a date is the end of that day, UTC",
    leftOut: "never",
  },
  limits: {
    is: callerLimits.optional(),
    means: "this key's own, beside what its group says for each key: both hold",
    leftOut: "unlimited",
  },
});
