/** A group as it is stored: what its keys grant, and how they are charged. */

import { CAPTURE_MODES } from "./capture.ts";
import type { Charge } from "./charge.ts";
import { groupFallback } from "./fallback.ts";
import type { Field, RecordOf } from "./fields.ts";
import * as field from "./fields.ts";
import type { Price } from "./price.ts";

/** The queue of a group while every account is busy: its length and its timeout. */
export interface QueueSettings {
  maxWaiting: number;
  timeoutMs: number;
}

export const DEFAULT_QUEUE: QueueSettings = { maxWaiting: 100, timeoutMs: 30_000 };

/** The searches that are held and charged for a request without a limit of its own, if its group sets none. */
export const WEB_SEARCHES_DEFAULT = 10;

export const ON_DISCONNECT = ["cancel", "drain"] as const;
export type OnDisconnect = (typeof ON_DISCONNECT)[number];

/** For a group without its own setting. One that charges drains: a cancelled upstream would not report its usage. */
export function defaultOnDisconnect(charge: GroupBilling["charge"]): OnDisconnect {
  return charge === "none" ? "cancel" : "drain";
}

/** Who may create keys in a group: every user, or only its members. */
export const GROUP_ACCESS = ["everyone", "members"] as const;

export { CHARGES, type Charge } from "./charge.ts";

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

/** A group: what an API key grants (models, accounts and interfaces). In the order of the file. */
export const GROUP_FIELDS = {
  id: field.internal(field.text),
  name: field.identity,
  interfaces: field.interfaceList,
  /** Public model ids (rows of `publication`), in the operator's order. */
  models: field.members,
  /** Account ids (rows of `pool`), in the operator's order. The file has their names. */
  accounts: field.members,
  access: field.choice(GROUP_ACCESS),
  billing: { kind: "billing" } as Field<GroupBilling, "billing">,
  /** Limits of each key. */
  limits: field.callerLimits,
  /** Limits of all its keys together. */
  groupLimits: field.callerLimits,
  queue: { kind: "queue" } as Field<QueueSettings, "queue">,
  /** Null if unset: `defaultOnDisconnect` applies. */
  onDisconnect: field.optionalChoice(ON_DISCONNECT),
  /** Searches of the web for one request that sets no limit itself. Null if unset: `WEB_SEARCHES_DEFAULT`. */
  webSearchesMax: field.optionalInteger,
  websocket: field.flag(
    true,
    "whether the group's keys may use Responses over WebSocket; if `false`, `GET /v1/responses` returns `426`, and clients fall back to HTTP",
  ),
  costHeaders: field.flag(
    false,
    "whether responses report their [cost](observability.md#cost-for-the-caller): `x-gateway-cost`, and `x-gateway-balance` if the group charges the balance",
  ),
  capture: field.choiceOr("off", CAPTURE_MODES),
  /** The name of the request policy of all its keys. */
  requestPolicy: field.optionalText,
  /** Other groups that serve a request which this one cannot. */
  fallback: groupFallback,
  createdAtMs: field.internal(field.integer),
};

export interface GroupRecord extends RecordOf<typeof GROUP_FIELDS> {}
