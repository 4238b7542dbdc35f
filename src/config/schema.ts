import { z } from "zod";
import { DEFAULT_QUEUE, INTERFACES } from "../records.ts";
import { claimsOurForm, hasValidChecksum } from "../secrets/api-key.ts";
import { limits } from "./limits.ts";
import { durationMs, durationText, WINDOW_NAMES } from "./usage-limits.ts";

/**
 * The shape of gateway.yaml. Every field is optional to leave out or required here, and nowhere else; what ties
 * two places of the file together (references, duplicates) is in check.ts, so that one wrong leaf does not hide it.
 */

export const FILE_ACCOUNT_KINDS = ["openai", "azure", "anthropic", "gemini", "simulator"] as const;
export const PRICE_UNITS = ["input", "cached_input", "output", "image_input", "image", "request"] as const;

/** A strict object whose complaint about unknown fields carries the allowed ones: file.ts reads them back. */
function fields<Shape extends z.ZodRawShape>(shape: Shape) {
  const allowed = Object.keys(shape).join(", ");
  return z.strictObject(shape, {
    error: (issue) => (issue.code === "unrecognized_keys" ? allowed : undefined),
  });
}

/** `rule` says what is right, as the end of the sentence "must be …". */
function text(rule: string, test: (value: string) => boolean) {
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

const CONTROL = /\p{C}/u;

export const NAME_RULE = "a name of 1 to 64 characters, without control characters or spaces at its ends";
export function isName(value: string): boolean {
  return value.length >= 1 && value.length <= 64 && value.trim() === value && !CONTROL.test(value);
}
const name = text(NAME_RULE, isName);

const modelName = text(
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
  usd: usd.optional(),
  requests: count.optional(),
  tokens: count.optional(),
}).refine(
  ({ usd, requests, tokens }) => usd !== undefined || requests !== undefined || tokens !== undefined,
  { error: "a window with requests, tokens or both" },
);
const windows = z.array(window).refine((list) => new Set(list.map(({ per }) => per)).size === list.length, {
  error: "a list with one entry for each length; requests and tokens stand in the same entry",
});
const rates = { concurrency: count.optional(), rpm: count.optional(), tpm: count.optional() };
const accountLimits = fields(rates);
const callerLimits = fields({ ...rates, windows: windows.optional() });

const price = fields({
  input: priceDecimal.optional(),
  cached_input: priceDecimal.optional(),
  output: priceDecimal.optional(),
  image_input: priceDecimal.optional(),
  image: priceDecimal.optional(),
  request: priceDecimal.optional(),
} satisfies Record<(typeof PRICE_UNITS)[number], unknown>);

const model = fields({ id: modelName, interfaces, price: price.optional() });

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
  charge: z.enum(["balance", "subscription", "none"]).default("none"),
  multiplier: multiplier.optional(),
  model_multipliers: z.record(z.string(), multiplier).optional(),
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

const user = fields({
  email,
  role: z.enum(["admin", "user"]).default("user"),
  password: text(PASSWORD_RULE, isPassword).optional(),
  balance: usd.optional(),
  limits: callerLimits.optional(),
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

export const gatewayFile = fields({
  server: fields({
    host: text("an address or host name to listen on", (value) =>
      /^[A-Za-z0-9.:_-]{1,253}$/.test(value),
    ).optional(),
    port: wholeNumber(0, 65_535).optional(),
    public_url: url.optional(),
  }).default(() => ({})),
  registration: z.enum(["open", "invite", "closed"]).default("closed"),
  models: z.array(model).default(() => []),
  accounts: z.array(account).default(() => []),
  groups: z.array(group).default(() => []),
  users: z.array(user).default(() => []),
  keys: z.array(key).default(() => []),
});

export type GatewayFile = z.output<typeof gatewayFile>;
export type FileModel = GatewayFile["models"][number];
export type FileAccount = GatewayFile["accounts"][number];
export type FileGroup = GatewayFile["groups"][number];
export type FileUser = GatewayFile["users"][number];
export type FileKey = GatewayFile["keys"][number];
