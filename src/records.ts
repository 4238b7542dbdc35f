/** What the operator has said, as stored: plain rows, one type a table. `snapshot.ts` compiles them. */

export const INTERFACES = ["chat", "responses", "embeddings", "images"] as const;
export type Interface = (typeof INTERFACES)[number];

export const ACCOUNT_KINDS = ["openai", "azure", "simulator"] as const;
export type AccountKind = (typeof ACCOUNT_KINDS)[number];

/** Parts of a price that are for a million tokens. */
export const TOKEN_UNITS = [
  "input",
  "cached_input",
  "cache_write",
  "output",
  "reasoning",
  "image_input",
  "audio_input",
  "audio_output",
] as const;
export type TokenUnit = (typeof TOKEN_UNITS)[number];

/** Those that a long context changes. */
export const LONG_CONTEXT_UNITS = ["input", "cached_input", "cache_write", "output", "reasoning"] as const;
export type LongContextUnit = (typeof LONG_CONTEXT_UNITS)[number];

/** A request with more than `above` input tokens is priced by these as a whole. */
export type LongContextPrice = Readonly<Partial<Record<LongContextUnit, string>>> & {
  readonly above: number;
  readonly input: string;
};

/** In the file's words: USD as decimal strings, exactly as the operator wrote them. What is left out falls back. */
export type Price = Readonly<Partial<Record<TokenUnit, string>>> & {
  /** For one image. */
  readonly image?: string;
  /** For one image of this size ("1024x1024") or size and quality ("1024x1024/hd"). */
  readonly images?: Readonly<Record<string, string>>;
  /** For one request. */
  readonly request?: string;
  readonly long_context?: LongContextPrice;
};

/** What is publicly known of a model: what its provider asks, and how much fits. */
export interface ListedModel {
  readonly price: Price;
  readonly contextTokens: number | null;
  readonly outputTokensMax: number | null;
}

export interface PriceList {
  /** The day of its facts: 2026-03-21. */
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

/** At most so many requests or tokens, or so much money, in any span of this length. */
export interface WindowLimit {
  perMs: number;
  requests: number | null;
  tokens: number | null;
  /** Nano-USD. A number and not a bigint: it is counted on every request, and the file allows what that holds exactly. */
  nano: number | null;
}

export interface CallerLimits extends RateLimits {
  windows: WindowLimit[];
}

export const NO_RATE_LIMITS: RateLimits = { concurrency: null, rpm: null, tpm: null };
export const NO_LIMITS: CallerLimits = { concurrency: null, rpm: null, tpm: null, windows: [] };

/** The room to wait in while every account is busy: how many requests of a group, and for how long. */
export interface QueueSettings {
  maxWaiting: number;
  timeoutMs: number;
}

export const DEFAULT_QUEUE: QueueSettings = { maxWaiting: 100, timeoutMs: 30_000 };

/** A public model. Its id is the name callers send and `GET /v1/models` lists. */
export interface ModelRecord {
  id: string;
  interfaces: Interface[];
  price: Price | null;
  /** Tokens in and out that fit together; null: as a price list says, or unknown. */
  contextTokens: number | null;
  /** The most output tokens of one answer; null: as a price list says, or unknown. */
  outputTokensMax: number | null;
  createdAtMs: number;
}

/** An upstream credential and how to reach what it opens. */
export interface AccountRecord {
  id: string;
  name: string;
  kind: AccountKind;
  /** Without a trailing slash. Empty for the built-in simulator, whose port is only known at run time. */
  baseUrl: string;
  /** AES-256-GCM, bound to this row; null when the upstream needs none. */
  sealedCredential: string | null;
  interfaces: Interface[];
  /** Its `/responses` accepts WebSocket. */
  websocket: boolean;
  /** Azure only: the dated API to ask for; null asks for its undated v1 API. */
  apiVersion: string | null;
  /** Loopback and private addresses may be dialled. Only the configuration file can say so. */
  privateNetwork: boolean;
  priority: number;
  weight: number;
  /** Public name → upstream name; a `*` at the end of both stands for the rest. */
  models: Record<string, string>;
  /** What the upstream grants this credential. */
  limits: RateLimits;
  enabled: boolean;
  createdAtMs: number;
}

export const ON_DISCONNECT = ["cancel", "drain"] as const;
export type OnDisconnect = (typeof ON_DISCONNECT)[number];

/** Of a group that does not say. Where a group charges, an upstream that was stopped would never tell what it used. */
export function defaultOnDisconnect(charge: GroupBilling["charge"]): OnDisconnect {
  return charge === "none" ? "cancel" : "drain";
}

/** Who may make keys in a group: whoever has an account here, or those it is open to by name. */
export const GROUP_ACCESS = ["everyone", "members"] as const;
export type GroupAccess = (typeof GROUP_ACCESS)[number];

/** What one API key is assigned to: it grants models, accounts and interfaces. */
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
  /** Null where the group does not say: `defaultOnDisconnect` applies. */
  onDisconnect: OnDisconnect | null;
  /** Its keys may use Responses over WebSocket. */
  websocket: boolean;
  /** For each key on its own. */
  limits: CallerLimits;
  /** For all its keys together. */
  groupLimits: CallerLimits;
  queue: QueueSettings;
  createdAtMs: number;
}

export const CHARGES = ["none", "balance", "subscription"] as const;
export type Charge = (typeof CHARGES)[number];

/** How a group's use is charged. Multipliers are decimal strings, exactly as the operator wrote them. */
export interface GroupBilling {
  charge: Charge;
  /** Names of the plans that may pay; null: any. */
  plans: string[] | null;
  multiplier: string;
  /** Times the group's. */
  modelMultipliers: Record<string, string>;
  /** Instead of the model's own. */
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
  /** Nobody disabled signs in, and their keys and tokens open nothing. */
  status: UserStatus;
  passwordHash: string | null;
  /** For all keys of this user together. */
  limits: CallerLimits;
  /** Ids of groups it is a member of (rows of `grp_member`), in the operator's order. */
  groups: readonly string[];
  createdAtMs: number;
}

/** A caller's credential. The secret itself is never stored, only its keyed digest. */
export interface KeyRecord {
  id: string;
  name: string;
  userId: string | null;
  groupId: string;
  /** HMAC-SHA-256 of the secret under the installation's pepper, base64url. */
  digest: string;
  /** The eight characters after the prefix: safe to show, to log and to name the key by. */
  publicId: string;
  last4: string;
  status: "active" | "revoked";
  expiresAtMs: number | null;
  /** Beside the group's: the tighter one counts. */
  limits: CallerLimits;
  createdAtMs: number;
  revokedAtMs: number | null;
}

export const PLAN_PERIODS = ["day", "week", "month"] as const;
export type PlanPeriod = (typeof PLAN_PERIODS)[number];
export const COUNTED = ["calendar", "rolling"] as const;

/** So much money in each day, week or month: of the calendar, or counted from the subscription's start. */
export interface PlanWindow {
  per: PlanPeriod;
  /** A decimal string of USD. */
  usd: string;
  counted: (typeof COUNTED)[number];
}

/** What a user may be granted beside a balance. */
export interface PlanRecord {
  id: string;
  name: string;
  /** An IANA name: where calendar windows begin, and by whose wall clock months are counted. */
  timeZone: string;
  /** At least one, each period once. */
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
  /** The first moment after it; null: open, or one period after the start where it renews. */
  endsAtMs: number | null;
  /** At each end it goes on for another such period. */
  renews: Renewal;
  /** The lowest pays first. */
  priority: number;
  status: "active" | "cancelled";
  createdAtMs: number;
}

/** What a key's secret was before it was rotated. */
export interface FormerSecret {
  digest: string;
  last4: string;
  /** The key can be used with it up to then. */
  worksUntilMs: number;
}

/** A key together with what its user may use, which counts for all keys of that user. */
export interface KeyOfUser extends KeyRecord {
  userLimits: CallerLimits;
  /** Those that still worked when it was read. */
  formerSecrets: readonly Pick<FormerSecret, "digest" | "worksUntilMs">[];
}

/** One field of a thing that was changed, as an operator reads it. Never a secret. */
export interface FieldChange {
  field: string;
  /** Null where there was, or will be, nothing. */
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

/** Who may make an account here: anybody, whoever was invited, or nobody. */
export const REGISTRATIONS = ["open", "invite", "closed"] as const;
export type Registration = (typeof REGISTRATIONS)[number];

/** TLS from the first byte, TLS asked for before anything is said, or none. */
export const SMTP_SECURITY = ["tls", "starttls", "none"] as const;
export type SmtpSecurity = (typeof SMTP_SECURITY)[number];

export interface SmtpRecord {
  host: string;
  port: number;
  security: SmtpSecurity;
  user: string | null;
  sealedPassword: string | null;
  from: string;
  /** A loopback or private address may be dialled. Only the configuration file can say so. */
  privateNetwork: boolean;
}

/** Where alerts are posted to. */
export interface WebhookRecord {
  name: string;
  url: string;
  /** What deliveries are signed with; null: they are not signed. */
  sealedSecret: string | null;
  privateNetwork: boolean;
  enabled: boolean;
}

export interface AlertsRecord {
  webhooks: WebhookRecord[];
  accountParked: { enabled: boolean };
  /** No account of a group can be asked, for so long. */
  poolEmpty: { enabled: boolean; forMs: number };
  /** USD as a decimal string, over a day of UTC. */
  spend: { enabled: boolean; usdPerDay: string };
  errorRate: { enabled: boolean; percent: number; overMs: number; requestsMin: number };
  /** So many requests of one user cost more than was held for them, within so long. */
  overruns: { enabled: boolean; count: number; overMs: number };
}

export const DEFAULT_ALERTS: AlertsRecord = {
  webhooks: [],
  accountParked: { enabled: true },
  poolEmpty: { enabled: true, forMs: 60_000 },
  spend: { enabled: false, usdPerDay: "100" },
  errorRate: { enabled: true, percent: 20, overMs: 300_000, requestsMin: 20 },
  overruns: { enabled: true, count: 3, overMs: 3_600_000 },
};
