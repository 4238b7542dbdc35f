import { z } from "zod";
import { parseUsd } from "../money/nano.ts";
import { isTimeZone } from "../money/plan-windows.ts";
import {
  CHARGES,
  COUNTED,
  DEFAULT_QUEUE,
  INTERFACES,
  type LongContextUnit,
  PLAN_PERIODS,
  type Price,
  RENEWALS,
} from "../records.ts";
import { claimsOurForm, hasValidChecksum } from "../secrets/api-key.ts";
import { limits } from "./limits.ts";
import { durationMs, durationText, WINDOW_NAMES } from "./usage-limits.ts";

/**
 * The shape of gateway.yaml. Every field is optional to leave out or required here, and nowhere else; what ties
 * two places of the file together (references, duplicates) is in check.ts, so that one wrong leaf does not hide it.
 */

export const FILE_ACCOUNT_KINDS = ["openai", "azure", "anthropic", "gemini", "simulator"] as const;

/** A strict object whose complaint about unknown fields carries the allowed ones: file.ts reads them back. */
export function fields<Shape extends z.ZodRawShape>(shape: Shape) {
  const allowed = Object.keys(shape).join(", ");
  return z.strictObject(shape, {
    error: (issue) => (issue.code === "unrecognized_keys" ? allowed : undefined),
  });
}

/** `rule` says what is right, as the end of the sentence "must be …". */
export function text(rule: string, test: (value: string) => boolean) {
  return z.string({ error: rule }).refine(test, { error: rule });
}

/** An interpolated `${PORT}` is always text, so digits in text are a whole number too. */
function wholeNumber(min: number, max: number) {
  const rule =
    max === Number.MAX_SAFE_INTEGER
      ? `a whole number, ${min} or more`
      : `a whole number from ${min} to ${max}`;
  return z.preprocess(
    (value) => (typeof value === "string" && /^\d{1,15}$/.test(value) ? Number(value) : value),
    z.int({ error: rule }).min(min, { error: rule }).max(max, { error: rule }),
  );
}

const COUNT_MAX = Number.MAX_SAFE_INTEGER;

/** Floating point has no place in money: 0.1 is not a tenth. */
function decimal(decimalsMax: number) {
  const rule = `a decimal number like "0.15", not negative, with at most ${decimalsMax} decimals`;
  const pattern = new RegExp(`^\\d{1,9}(\\.\\d{1,${decimalsMax}})?$`);
  return text(rule, (value) => pattern.test(value));
}

const priceDecimal = decimal(6);
const multiplier = decimal(6);
const usd = decimal(9);

/** The limiter counts nano-dollars in numbers, which are exact a little further than this. */
const WINDOW_USD_MAX = "9000000";
const windowUsd = text(
  `an amount in USD like "5.00", above 0 and at most ${WINDOW_USD_MAX}, with at most 9 decimals`,
  (value) => {
    if (!usd.safeParse(value).success) return false;
    const nano = parseUsd(value);
    return nano > 0n && nano <= parseUsd(WINDOW_USD_MAX);
  },
);

/** Beyond it nobody waits, and a timer has an end. */
const queueTimeout = text(
  `a duration like 30s, at most ${durationText(limits.queueTimeoutMsMax)}`,
  (value) => {
    const ms = durationMs(value);
    return ms !== null && ms <= limits.queueTimeoutMsMax;
  },
).transform((value) => durationMs(value) ?? 0);

/** A day without a time ends with that day in UTC: a key that expires on Friday still works on Friday. */
export function instantMs(value: string): number | null {
  const day = /^\d{4}-\d{2}-\d{2}$/.test(value);
  if (!day && !/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2})$/.test(value))
    return null;
  const ms = Date.parse(day ? `${value}T23:59:59.999Z` : value);
  // Date.parse turns 31 February into March; the day must come back as it was written.
  const dayExists = new Date(`${value.slice(0, 10)}T00:00:00Z`);
  if (Number.isNaN(ms) || Number.isNaN(dayExists.getTime())) return null;
  return dayExists.toISOString().slice(0, 10) === value.slice(0, 10) ? ms : null;
}

export const INSTANT_RULE = "an ISO date like 2027-01-31, or a date and time like 2027-01-31T12:00:00Z";
const instant = text(INSTANT_RULE, (value) => instantMs(value) !== null).transform(
  (value) => instantMs(value) ?? 0,
);

/** A day without a time begins with that day in UTC. */
export function startMs(value: string): number | null {
  const ms = instantMs(value);
  return ms === null || value.length > 10 ? ms : Date.parse(`${value}T00:00:00Z`);
}
const start = text(INSTANT_RULE, (value) => startMs(value) !== null).transform(
  (value) => startMs(value) ?? 0,
);

const CONTROL = /\p{C}/u;

export const NAME_RULE = "a name of 1 to 64 characters, without control characters or spaces at its ends";
export function isName(value: string): boolean {
  return value.length >= 1 && value.length <= 64 && value.trim() === value && !CONTROL.test(value);
}
const name = text(NAME_RULE, isName);

export const modelName = text(
  `a model name of 1 to ${limits.modelNameCharsMax} characters, without spaces or *`,
  (value) => value.length >= 1 && value.length <= limits.modelNameCharsMax && !/[\s*\p{C}]/u.test(value),
);

export const EMAIL_RULE = "an e-mail address like ops@example.com";
export function isEmail(value: string): boolean {
  return value.length <= 254 && /^[^\s@\p{C}]+@[^\s@.\p{C}]+(\.[^\s@.\p{C}]+)*$/u.test(value);
}
/** Addresses are compared without regard to case, so they are kept in one. */
const email = text(EMAIL_RULE, isEmail).transform((value) => value.toLowerCase());

function httpUrl(value: string): URL | null {
  if (!/^https?:\/\//i.test(value) || !URL.canParse(value)) return null;
  const url = new URL(value);
  const plain = url.username === "" && url.password === "" && url.search === "" && url.hash === "";
  return plain && url.hostname !== "" ? url : null;
}
const URL_RULE = "an http:// or https:// address without user, password, query or fragment";
export const PUBLIC_URL_RULE = URL_RULE;
export function isHttpUrl(value: string): boolean {
  return httpUrl(value) !== null;
}
const url = text(URL_RULE, isHttpUrl).transform((value) => value.replace(/\/+$/, ""));

const credential = text(
  "a string of visible characters",
  // It travels in a header: anything else would be refused there, or split the header.
  (value) => /^[\x21-\x7e]{1,8192}$/.test(value),
);

export const PASSWORD_RULE = `a string of ${limits.passwordCharsMin} to ${limits.passwordCharsMax} characters`;
export function isPassword(value: string): boolean {
  return value.length >= limits.passwordCharsMin && value.length <= limits.passwordCharsMax;
}

const interfaces = z.array(z.enum(INTERFACES)).min(1, { error: "a list with at least one entry" });
const allInterfaces = () => [...INTERFACES];

const count = wholeNumber(1, COUNT_MAX);
const window = fields({
  per: z.enum(WINDOW_NAMES),
  usd: windowUsd.optional(),
  requests: count.optional(),
  tokens: count.optional(),
}).refine(
  ({ usd, requests, tokens }) => usd !== undefined || requests !== undefined || tokens !== undefined,
  { error: "a window with requests, tokens, usd or several of them" },
);
const windows = z.array(window).refine((list) => new Set(list.map(({ per }) => per)).size === list.length, {
  error: "a list with one entry for each length; requests, tokens and usd stand in the same entry",
});
const rates = { concurrency: count.optional(), rpm: count.optional(), tpm: count.optional() };
const accountLimits = fields(rates);
const callerLimits = fields({ ...rates, windows: windows.optional() });

const somePrice = z.exactOptional(priceDecimal);
const imageKind = text(
  "an image size like 1024x1024, or a size and a quality like 1024x1024/high",
  (value) => value.length <= 64 && /^[^\s/\p{C}]+(\/[^\s/\p{C}]+)?$/u.test(value),
);
const price = fields({
  input: somePrice,
  cached_input: somePrice,
  cache_write: somePrice,
  output: somePrice,
  reasoning: somePrice,
  image_input: somePrice,
  audio_input: somePrice,
  audio_output: somePrice,
  image: somePrice,
  images: z.exactOptional(z.record(imageKind, priceDecimal)),
  request: somePrice,
  long_context: z.exactOptional(
    fields({
      above: wholeNumber(1, COUNT_MAX),
      input: priceDecimal,
      cached_input: somePrice,
      cache_write: somePrice,
      output: somePrice,
      reasoning: somePrice,
    } satisfies Record<LongContextUnit | "above", unknown>),
  ),
} satisfies Record<keyof Price, unknown>);

export const priceGiven = price.refine((units) => Object.keys(units).length > 0, {
  error: 'a price, like { input: "0.15" }',
  // An unknown unit is a complaint of its own.
  when: ({ issues }) => issues.length === 0,
});

/** What fits into a model. */
export const modelSizes = { context_tokens: count.optional(), max_output_tokens: count.optional() };

const model = fields({ id: modelName, interfaces, price: price.optional(), ...modelSizes });

/** What may stand on either side of an account's `models`. */
const mapped = text(
  "a model name, or one with a single * as its last character",
  (value) =>
    value.length >= 1 && value.length <= limits.modelNameCharsMax && /^[^\s*\p{C}]*\*?$/u.test(value),
);

const account = fields({
  name,
  kind: z.enum(FILE_ACCOUNT_KINDS),
  base_url: url.optional(),
  credential: credential.optional(),
  interfaces: interfaces.default(allInterfaces),
  websocket: z.boolean().default(false),
  api_version: text("an API version like 2024-10-21 or preview", (value) =>
    /^[A-Za-z0-9.-]{1,40}$/.test(value),
  ).optional(),
  private_network: z.boolean().default(false),
  priority: wholeNumber(0, 1_000).default(1),
  weight: wholeNumber(1, 1_000).default(1),
  limits: accountLimits.optional(),
  models: z.record(mapped, mapped).default(() => ({ "*": "*" })),
  enabled: z.boolean().default(true),
});

const billing = fields({
  charge: z.enum(CHARGES).default("none"),
  plans: z.array(name).min(1, { error: "a list with at least one plan" }).optional(),
  multiplier: multiplier.optional(),
  model_multipliers: z.record(z.string(), multiplier).optional(),
  model_prices: z.record(z.string(), priceGiven).optional(),
});

const group = fields({
  name,
  interfaces: interfaces.default(allInterfaces),
  models: z.array(modelName).default(() => []),
  accounts: z.array(name).default(() => []),
  billing: billing.optional(),
  limits: callerLimits.optional(),
  group_limits: callerLimits.optional(),
  queue: fields({
    max_waiting: wholeNumber(0, 1_000_000).default(DEFAULT_QUEUE.maxWaiting),
    timeout: queueTimeout.default(DEFAULT_QUEUE.timeoutMs),
  }).optional(),
  on_disconnect: z.enum(["cancel", "drain"]).default("cancel"),
});

const planWindow = fields({
  per: z.enum(PLAN_PERIODS),
  usd: windowUsd,
  counted: z.enum(COUNTED).default("calendar"),
});
const plan = fields({
  name,
  time_zone: text("the name of a time zone, like UTC or Europe/Berlin", isTimeZone).default("UTC"),
  windows: z
    .array(planWindow)
    .refine((list) => list.length > 0 && new Set(list.map(({ per }) => per)).size === list.length, {
      error: "a list of one window or more, each of another length",
    }),
});

const subscription = fields({
  plan: name,
  starts: start.optional(),
  ends: instant.optional(),
  renews: z.enum(RENEWALS).default("none"),
  priority: wholeNumber(0, 1_000).default(1),
}).refine(({ starts, ends }) => starts === undefined || ends === undefined || starts < ends, {
  error: "a time after starts",
  path: ["ends"],
});

const user = fields({
  email,
  role: z.enum(["admin", "user"]).default("user"),
  password: text(PASSWORD_RULE, isPassword).optional(),
  balance: usd.optional(),
  limits: callerLimits.optional(),
  subscriptions: z.array(subscription).optional(),
});

const KEY_SECRET_RULE = `a secret of ${limits.keySecretCharsMin} to ${limits.keySecretCharsMax} visible characters; one that begins with gwk_ must be whole`;
function isKeySecret(value: string): boolean {
  const long = value.length >= limits.keySecretCharsMin && value.length <= limits.keySecretCharsMax;
  // A secret in our form with a wrong checksum is turned away at the door, so it must not be stored.
  return long && /^[\x21-\x7e]+$/.test(value) && (!claimsOurForm(value) || hasValidChecksum(value));
}

const key = fields({
  name,
  user: email.optional(),
  group: name,
  secret: text(KEY_SECRET_RULE, isKeySecret).optional(),
  expires: instant.optional(),
  limits: callerLimits.optional(),
});

/** Null keeps them for ever. Below a week, a settlement that comes late might be counted twice. */
const usageRowsKept = text(
  `a duration like 90d, at least ${durationText(limits.usageRowsKeptMsMin)}, or forever`,
  (value) => value === "forever" || (durationMs(value) ?? 0) >= limits.usageRowsKeptMsMin,
).transform((value) => (value === "forever" ? null : durationMs(value)));

export const gatewayFile = fields({
  server: fields({
    host: text("an address or host name to listen on", (value) =>
      /^[A-Za-z0-9.:_-]{1,253}$/.test(value),
    ).optional(),
    port: wholeNumber(0, 65_535).optional(),
    public_url: url.optional(),
  }).default(() => ({})),
  registration: z.enum(["open", "invite", "closed"]).default("closed"),
  retention: fields({ usage_rows: usageRowsKept.optional() }).optional(),
  models: z.array(model).default(() => []),
  accounts: z.array(account).default(() => []),
  groups: z.array(group).default(() => []),
  plans: z.array(plan).default(() => []),
  users: z.array(user).default(() => []),
  keys: z.array(key).default(() => []),
});

export type GatewayFile = z.output<typeof gatewayFile>;
export type FileModel = GatewayFile["models"][number];
export type FileAccount = GatewayFile["accounts"][number];
export type FileGroup = GatewayFile["groups"][number];
export type FilePlan = GatewayFile["plans"][number];
export type FileUser = GatewayFile["users"][number];
export type FileSubscription = NonNullable<FileUser["subscriptions"]>[number];
export type FileKey = GatewayFile["keys"][number];
