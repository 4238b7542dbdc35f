/** A group as it is stored: what its keys grant, and how they are charged. */

import type { CaptureMode } from "./capture.ts";
import type { Interface } from "./interfaces.ts";
import type { CallerLimits } from "./limits.ts";
import type { Price } from "./price.ts";

/** The queue of a group while every account is busy: its length and its timeout. */
export interface QueueSettings {
  maxWaiting: number;
  timeoutMs: number;
}

export const DEFAULT_QUEUE: QueueSettings = { maxWaiting: 100, timeoutMs: 30_000 };

export const ON_DISCONNECT = ["cancel", "drain"] as const;
export type OnDisconnect = (typeof ON_DISCONNECT)[number];

/** For a group without its own setting. One that charges drains: a cancelled upstream would not report its usage. */
export function defaultOnDisconnect(charge: GroupBilling["charge"]): OnDisconnect {
  return charge === "none" ? "cancel" : "drain";
}

/** Who may create keys in a group: every user, or only its members. */
export const GROUP_ACCESS = ["everyone", "members"] as const;
export type GroupAccess = (typeof GROUP_ACCESS)[number];

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
