/** The configuration as stored: plain rows, one type per table. `snapshot.ts` compiles them. */

export const INTERFACES = ["chat", "responses", "messages", "gemini", "embeddings", "images"] as const;
export type Interface = (typeof INTERFACES)[number];

/** The dialects of conversations, which the gateway translates into each other. */
export const DIALECTS = ["responses", "chat", "messages", "gemini"] as const;
export type Dialect = (typeof DIALECTS)[number];

export const ACCOUNT_KINDS = [
  "openai",
  "azure",
  "anthropic",
  "bedrock",
  "gemini",
  "vertex",
  "simulator",
] as const;
export type AccountKind = (typeof ACCOUNT_KINDS)[number];

/** The interfaces of an account whose configuration names none. */
export const DEFAULT_INTERFACES: Readonly<Record<AccountKind, readonly Interface[]>> = {
  openai: ["chat", "responses", "embeddings", "images"],
  azure: ["chat", "responses", "embeddings", "images"],
  anthropic: ["messages"],
  bedrock: ["messages"],
  gemini: ["gemini", "embeddings"],
  vertex: ["messages", "gemini"],
  simulator: INTERFACES,
};

/** Parts of a price that apply per million tokens. */
export const TOKEN_UNITS = [
  "input",
  "cached_input",
  "cache_write",
  "cache_write_1h",
  "output",
  "reasoning",
  "image_input",
  "audio_input",
  "audio_output",
] as const;
export type TokenUnit = (typeof TOKEN_UNITS)[number];

/** Units that a long context prices differently. */
export const LONG_CONTEXT_UNITS = [
  "input",
  "cached_input",
  "cache_write",
  "cache_write_1h",
  "output",
  "reasoning",
] as const;
export type LongContextUnit = (typeof LONG_CONTEXT_UNITS)[number];

/** A request with more than `above` input tokens is priced by these as a whole. */
export type LongContextPrice = Readonly<Partial<Record<LongContextUnit, string>>> & {
  readonly above: number;
  readonly input: string;
};

/** Tools that the upstream runs and bills by the call. */
export const CALL_UNITS = ["web_search"] as const;
export type CallUnit = (typeof CALL_UNITS)[number];

/** Service tiers that have their own prices. */
export const SERVICE_TIERS = ["flex", "priority", "fast"] as const;
export type ServiceTier = (typeof SERVICE_TIERS)[number];

/**
 * Field names as in the configuration file. Amounts are USD as decimal strings, exactly as the operator wrote them.
 * Omitted units fall back.
 */
export type Price = Readonly<Partial<Record<TokenUnit, string>>> & {
  /** Per image. */
  readonly image?: string;
  /** Per image of this size ("1024x1024") or size and quality ("1024x1024/hd"). */
  readonly images?: Readonly<Record<string, string>>;
  /** Per request. */
  readonly request?: string;
  readonly long_context?: LongContextPrice;
  /** Per call of a tool that the upstream runs. */
  readonly per_call?: Readonly<Partial<Record<CallUnit, string>>>;
  /** Multiplies the token prices of requests that were served in this tier. */
  readonly tier?: Readonly<Partial<Record<ServiceTier, string>>>;
};

/** Public facts of a model: the provider's price and the token limits. */
export interface ListedModel {
  readonly price: Price;
  readonly contextTokens: number | null;
  readonly outputTokensMax: number | null;
  /** Prices that were not read on the provider's own page. */
  readonly quotation?: PriceQuotation;
}

export interface PriceQuotation {
  /** The quoted units: `per_call.web_search`. */
  readonly units: readonly string[];
  /** The vendor whose price page was quoted. */
  readonly source: string;
  /** When they were collected: 2026-11-17. */
  readonly date: string;
}

export interface PriceList {
  /** Date of the prices: 2026-03-21. */
  readonly date: string;
  readonly models: Readonly<Record<string, ListedModel>>;
}

/** Null means no limit. */
export interface RateLimits {
  concurrency: number | null;
  /** Requests in any 60 seconds. */
  rpm: number | null;
  /** Tokens, in and out, in any 60 seconds. */
  tpm: number | null;
}

/** Maximum requests, tokens or cost in any span of this length. */
export interface WindowLimit {
  perMs: number;
  requests: number | null;
  tokens: number | null;
  /**
   * Nano-USD. A number instead of a bigint because it is counted on every request; the configuration allows only
   * values that a number holds exactly.
   */
  nano: number | null;
}

export interface CallerLimits extends RateLimits {
  windows: WindowLimit[];
}

export const NO_RATE_LIMITS: RateLimits = { concurrency: null, rpm: null, tpm: null };
export const NO_LIMITS: CallerLimits = { concurrency: null, rpm: null, tpm: null, windows: [] };

/** The queue of a group while every account is busy: its length and its timeout. */
export interface QueueSettings {
  maxWaiting: number;
  timeoutMs: number;
}

export const DEFAULT_QUEUE: QueueSettings = { maxWaiting: 100, timeoutMs: 30_000 };

/** A public model. Its id is the name that callers send and that `GET /v1/models` lists. */
export interface ModelRecord {
  id: string;
  interfaces: Interface[];
  price: Price | null;
  /** Maximum input and output tokens together; null: from the price list, or unknown. */
  contextTokens: number | null;
  /** Maximum output tokens of one response; null: from the price list, or unknown. */
  outputTokensMax: number | null;
  createdAtMs: number;
}

/** An account: a credential at an upstream, and how to reach it. */
export interface AccountRecord {
  id: string;
  name: string;
  kind: AccountKind;
  /** The vendor of an OpenAI-compatible API; null or absent if none is named. */
  vendor?: string | null;
  /** What differs from the capability profile of the kind or vendor, with the names of the configuration file. */
  profile?: Readonly<Record<string, string | boolean>> | null;
  /** Without a trailing slash. Empty for the built-in simulator, whose port is known only at run time. */
  baseUrl: string;
  /** AES-256-GCM, bound to this row; null if the upstream needs no credential. */
  sealedCredential: string | null;
  interfaces: Interface[];
  /** Whether its `/responses` accepts WebSocket. */
  websocket: boolean;
  /** Azure only: the dated API version; null uses the undated v1 API. */
  apiVersion: string | null;
  /** Amazon Bedrock and Google Vertex AI only: where the models run. */
  region?: string | null;
  /** Google Vertex AI only; null or absent uses the project of the service account. */
  project?: string | null;
  /** Whether its upstream receives the W3C trace context of requests. */
  propagateTrace: boolean;
  /** Whether loopback and private addresses may be dialled. Only the configuration file can allow it. */
  privateNetwork: boolean;
  priority: number;
  weight: number;
  /** Public model → upstream model; a `*` at the end of both matches the rest. */
  models: Record<string, string>;
  /** The limits that the upstream grants this credential. */
  limits: RateLimits;
  enabled: boolean;
  createdAtMs: number;
}

export const ON_DISCONNECT = ["cancel", "drain"] as const;
export type OnDisconnect = (typeof ON_DISCONNECT)[number];

/** For a group without its own setting. One that charges drains: a cancelled upstream would not report its usage. */
export function defaultOnDisconnect(charge: GroupBilling["charge"]): OnDisconnect {
  return charge === "none" ? "cancel" : "drain";
}

/** Who may create keys in a group: every user, or only its members. */
export const GROUP_ACCESS = ["everyone", "members"] as const;
export type GroupAccess = (typeof GROUP_ACCESS)[number];

/** Which requests are captured: none, those that fail, or all. */
export const CAPTURE_MODES = ["off", "errors", "all"] as const;
export type CaptureMode = (typeof CAPTURE_MODES)[number];

/** What can be removed from captures by pattern. Keys, credentials and inline media are always removed. */
export const CAPTURE_REDACTIONS = ["email", "card", "phone", "ip"] as const;
export type CaptureRedaction = (typeof CAPTURE_REDACTIONS)[number];

/** What an administrator ordered to be captured of one key. */
export interface KeyCapture {
  /** Null: the mode of the group applies. */
  mode: CaptureMode | null;
  /** How many of the next requests are captured, whatever the mode; 0 if none was ordered. */
  remaining: number;
  /** The order ends at this time. */
  untilMs: number;
}

/** A group: what an API key grants (models, accounts and interfaces). */
export interface GroupRecord {
  id: string;
  name: string;
  interfaces: Interface[];
  /** Public model ids (rows of `publication`), in the operator's order. */
  models: string[];
  /** Account ids (rows of `pool`), in the operator's order. */
  accounts: string[];
  access: GroupAccess;
  billing: GroupBilling;
  /** Null if unset: `defaultOnDisconnect` applies. */
  onDisconnect: OnDisconnect | null;
  /** Whether responses to its keys report their cost. */
  costHeaders: boolean;
  capture: CaptureMode;
  /** Whether its keys may use Responses over WebSocket. */
  websocket: boolean;
  /** Limits of each key. */
  limits: CallerLimits;
  /** Limits of all its keys together. */
  groupLimits: CallerLimits;
  queue: QueueSettings;
  createdAtMs: number;
}

export const CHARGES = ["none", "balance", "subscription"] as const;
export type Charge = (typeof CHARGES)[number];

/** How a group's usage is charged. Multipliers are decimal strings, exactly as the operator wrote them. */
export interface GroupBilling {
  charge: Charge;
  /** Names of the plans that may pay; null for any. */
  plans: string[] | null;
  multiplier: string;
  /** Multiplied with the group's multiplier. */
  modelMultipliers: Record<string, string>;
  /** Replace the model's own prices. */
  modelPrices: Record<string, Price>;
}

export const NO_BILLING: GroupBilling = {
  charge: "none",
  plans: null,
  multiplier: "1",
  modelMultipliers: {},
  modelPrices: {},
};

export type Role = "admin" | "user";

export const USER_STATUSES = ["active", "disabled"] as const;
export type UserStatus = (typeof USER_STATUSES)[number];

export interface UserRecord {
  id: string;
  email: string;
  role: Role;
  /** A disabled user cannot sign in, and the user's keys and tokens are rejected. */
  status: UserStatus;
  passwordHash: string | null;
  /** Limits of all keys of this user together. */
  limits: CallerLimits;
  /** Ids of the user's groups (rows of `grp_member`), in the operator's order. */
  groups: readonly string[];
  createdAtMs: number;
}

/** An API key. The secret itself is never stored, only its keyed digest. */
export interface KeyRecord {
  id: string;
  name: string;
  userId: string | null;
  groupId: string;
  /** HMAC-SHA-256 of the secret under the installation's pepper, base64url. */
  digest: string;
  /** The eight characters after the prefix. Safe to show and to log; identifies the key. */
  publicId: string;
  last4: string;
  status: "active" | "revoked";
  expiresAtMs: number | null;
  /** Applied together with the group's limits: the stricter one counts. */
  limits: CallerLimits;
  createdAtMs: number;
  revokedAtMs: number | null;
}

export const PLAN_PERIODS = ["day", "week", "month"] as const;
export type PlanPeriod = (typeof PLAN_PERIODS)[number];
export const COUNTED = ["calendar", "rolling"] as const;

/** An amount per day, week or month, either of the calendar or counted from the subscription's start. */
export interface PlanWindow {
  per: PlanPeriod;
  /** A decimal string of USD. */
  usd: string;
  counted: (typeof COUNTED)[number];
}

/** A plan that can be granted to users. */
export interface PlanRecord {
  id: string;
  name: string;
  /** An IANA name. Calendar windows begin, and months are counted, in this time zone. */
  timeZone: string;
  /** At least one; each period at most once. */
  windows: PlanWindow[];
  createdAtMs: number;
}

export const RENEWALS = ["none", "month", "year"] as const;
export type Renewal = (typeof RENEWALS)[number];

/** A plan granted to a user. */
export interface SubscriptionRecord {
  id: string;
  userId: string;
  planId: string;
  startsAtMs: number;
  /** Exclusive end; null: open-ended. If the subscription renews, null means one period after the start. */
  endsAtMs: number | null;
  /** At each end the subscription is extended by this period. */
  renews: Renewal;
  /** The lowest number pays first. */
  priority: number;
  status: "active" | "cancelled";
  createdAtMs: number;
}

/** A secret that a key had before it was rotated. */
export interface FormerSecret {
  digest: string;
  last4: string;
  /** The secret works until this time. */
  worksUntilMs: number;
}

/** A key with the limits of its user, which apply to all keys of that user. */
export interface KeyOfUser extends KeyRecord {
  userLimits: CallerLimits;
  capture: KeyCapture | null;
  /** The former secrets that still worked at the time of reading. */
  formerSecrets: readonly Pick<FormerSecret, "digest" | "worksUntilMs">[];
}

/** One changed field, as shown to an operator. Never a secret. */
export interface FieldChange {
  field: string;
  /** Null if the field had no value before, or has none now. */
  from: string | null;
  to: string | null;
}

export interface PolicyRecords {
  models: ModelRecord[];
  accounts: AccountRecord[];
  groups: GroupRecord[];
  /** Entries that replace those of the bundled price list. */
  priceList?: PriceList | null;
}
