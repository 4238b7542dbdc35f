/** What the operator has said, as stored: plain rows, one type a table. `snapshot.ts` compiles them. */

export const INTERFACES = ["chat", "responses", "embeddings", "images"] as const;
export type Interface = (typeof INTERFACES)[number];

export const ACCOUNT_KINDS = ["openai", "azure", "simulator"] as const;
export type AccountKind = (typeof ACCOUNT_KINDS)[number];

/** USD per million tokens (or per image, per request) as decimal strings, exactly as the operator wrote them. */
export type Price = Readonly<Record<string, string>>;

/** Null means no limit. */
export interface RateLimits {
  concurrency: number | null;
  /** Requests in any 60 seconds. */
  rpm: number | null;
  /** Tokens, in and out, in any 60 seconds. */
  tpm: number | null;
}

/** At most so many requests or tokens in any span of this length. */
export interface WindowLimit {
  perMs: number;
  requests: number | null;
  tokens: number | null;
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

export type OnDisconnect = "cancel" | "drain";

/** What one API key is assigned to: it grants models, accounts and interfaces. */
export interface GroupRecord {
  id: string;
  name: string;
  interfaces: Interface[];
  /** Public model ids (rows of `publication`), in the operator's order. */
  models: string[];
  /** Account ids (rows of `pool`), in the operator's order. */
  accounts: string[];
  billing: GroupBilling;
  onDisconnect: OnDisconnect;
  /** For each key on its own. */
  limits: CallerLimits;
  /** For all its keys together. */
  groupLimits: CallerLimits;
  queue: QueueSettings;
  createdAtMs: number;
}

/** How a group's use is charged. Multipliers are decimal strings, exactly as the operator wrote them. */
export interface GroupBilling {
  charge: "none";
  multiplier: string;
  modelMultipliers: Record<string, string>;
}

export const NO_BILLING: GroupBilling = { charge: "none", multiplier: "1", modelMultipliers: {} };

export type Role = "admin" | "user";

export interface UserRecord {
  id: string;
  email: string;
  role: Role;
  passwordHash: string | null;
  /** For all keys of this user together. */
  limits: CallerLimits;
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

/** A key together with what its user may use, which counts for all keys of that user. */
export interface KeyOfUser extends KeyRecord {
  userLimits: CallerLimits;
}

export interface PolicyRecords {
  models: ModelRecord[];
  accounts: AccountRecord[];
  groups: GroupRecord[];
}
