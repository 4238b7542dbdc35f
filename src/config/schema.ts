import { z } from "zod";
import { isTimeZone } from "../money/plan-windows.ts";
import {
  CHARGES,
  COUNTED,
  DEFAULT_QUEUE,
  GROUP_ACCESS,
  INTERFACES,
  type LongContextUnit,
  PLAN_PERIODS,
  type Price,
  RENEWALS,
  USER_STATUSES,
} from "../records.ts";
import { claimsOurForm, hasValidChecksum } from "../secrets/api-key.ts";
import { limits } from "./limits.ts";
import { alerts, registration, retention, smtp } from "./schema-settings.ts";
import {
  COUNT_MAX,
  decimal,
  email,
  fields,
  instant,
  isHttpUrl,
  name,
  start,
  text,
  url,
  usd,
  wholeNumber,
  windowUsd,
} from "./schema-words.ts";
import { durationMs, durationText, WINDOW_NAMES } from "./usage-limits.ts";

export {
  EMAIL_RULE,
  fields,
  INSTANT_RULE,
  instantMs,
  isEmail,
  isHttpUrl,
  isName,
  NAME_RULE,
  PUBLIC_URL_RULE,
  startMs,
  text,
} from "./schema-words.ts";

/**
 * The shape of gateway.yaml. Every field is optional to leave out or required here, and nowhere else; what ties
 * two places of the file together (references, duplicates) is in check.ts, so that one wrong leaf does not hide it.
 */

export const FILE_ACCOUNT_KINDS = ["openai", "azure", "anthropic", "gemini", "simulator"] as const;

const priceDecimal = decimal(6);
const multiplier = decimal(6);

/** Beyond it nobody waits, and a timer has an end. */
const queueTimeout = text(
  `a duration like 30s, at most ${durationText(limits.queueTimeoutMsMax)}`,
  (value) => {
    const ms = durationMs(value);
    return ms !== null && ms <= limits.queueTimeoutMsMax;
  },
).transform((value) => durationMs(value) ?? 0);

export const modelName = text(
  `a model name of 1 to ${limits.modelNameCharsMax} characters, without spaces or *`,
  (value) => value.length >= 1 && value.length <= limits.modelNameCharsMax && !/[\s*\p{C}]/u.test(value),
);

/** As browsers send it: scheme, host and port alone, in lower case. */
const origin = text("an origin like https://app.example.com, without a path", (value) => {
  return isHttpUrl(value) && new URL(value).origin === value;
});

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
  access: z.enum(GROUP_ACCESS).default("everyone"),
  billing: billing.optional(),
  limits: callerLimits.optional(),
  group_limits: callerLimits.optional(),
  queue: fields({
    max_waiting: wholeNumber(0, 1_000_000).default(DEFAULT_QUEUE.maxWaiting),
    timeout: queueTimeout.default(DEFAULT_QUEUE.timeoutMs),
  }).optional(),
  on_disconnect: z.enum(["cancel", "drain"]).default("cancel"),
  websocket: z.boolean().default(true),
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
  status: z.enum(USER_STATUSES).optional(),
  password: text(PASSWORD_RULE, isPassword).optional(),
  balance: usd.optional(),
  limits: callerLimits.optional(),
  groups: z.array(name).default(() => []),
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

export const gatewayFile = fields({
  server: fields({
    host: text("an address or host name to listen on", (value) =>
      /^[A-Za-z0-9.:_-]{1,253}$/.test(value),
    ).optional(),
    port: wholeNumber(0, 65_535).optional(),
    public_url: url.optional(),
    allowed_origins: z.array(origin).optional(),
  }).default(() => ({})),
  registration: registration.optional(),
  retention: retention.optional(),
  smtp: smtp.optional(),
  alerts: alerts.optional(),
  models: z.array(model).default(() => []),
  accounts: z.array(account).default(() => []),
  groups: z.array(group).default(() => []),
  plans: z.array(plan).default(() => []),
  users: z.array(user).default(() => []),
  keys: z.array(key).default(() => []),
});

export type GatewayFile = z.output<typeof gatewayFile>;
/** Its sections before anybody has looked at what is in them. */
export type GatewayDocument = {
  readonly [section in keyof GatewayFile]?: GatewayFile[section] extends readonly unknown[]
    ? readonly object[]
    : unknown;
};
export type FileModel = GatewayFile["models"][number];
export type FileAccount = GatewayFile["accounts"][number];
export type FileGroup = GatewayFile["groups"][number];
export type FilePlan = GatewayFile["plans"][number];
export type FileUser = GatewayFile["users"][number];
export type FileSubscription = NonNullable<FileUser["subscriptions"]>[number];
export type FileKey = GatewayFile["keys"][number];
