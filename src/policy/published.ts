/** The types of the compiled policy, which every request reads. */

import type { PolicyAccount } from "../accounts/account.ts";
import type { Tariff } from "../money/tariff.ts";
import type { FallbackCondition } from "../records/fallback.ts";
import type { Charge, GroupRecord, OnDisconnect } from "../records/group.ts";
import { type Dialect, INTERFACES, type Interface } from "../records/interfaces.ts";
import type { RequestPolicy } from "./request-policy.ts";
import type { ToolSignInPolicy } from "./tool-sign-in.ts";

/** One way to serve a public model through an interface: this account with this upstream model. */
export interface AccountRoute {
  readonly account: PolicyAccount;
  readonly upstreamModel: string;
  /** The dialect that requests are translated into; null if the account has the interface itself. */
  readonly translation: Dialect | null;
}

export interface PublishedModel {
  readonly id: string;
  readonly createdAtMs: number;
  /**
   * The interfaces that model and group share and that at least one account of the pool serves, itself or by
   * translation, with the routes of each.
   */
  readonly routes: ReadonlyMap<Interface, readonly AccountRoute[]>;
  /** The price in this group; null if no price is known. A group that charges cannot publish a model without one. */
  readonly tariff: Tariff | null;
  /** Maximum of input and output tokens together, if known. */
  readonly contextTokens: number | null;
  /** Maximum number of output tokens of one response, if known. */
  readonly outputTokensMax: number | null;
  /** The steps after this one, in the order in which they are tried: those of the group, then those of the model. */
  readonly fallback: readonly PublishedFallbackStep[];
}

/** Where a request goes when the steps before cannot serve it. Its own model has no further steps. */
export interface PublishedFallbackStep {
  /** From 1, in the order of the configured chain. Steps that the request policy excludes leave a gap. */
  readonly number: number;
  /**
   * What the caller has while the step serves. Interfaces, WebSocket, capture, cost headers and queue are those of the
   * key's group. Accounts, price, payer, limits and `onDisconnect` are those of the step's group. Its request policy is
   * the intersection of both.
   */
  readonly group: PolicyGroup;
  readonly model: PublishedModel;
  readonly when: ReadonlySet<FallbackCondition>;
  /** In millionths: the highest cost of this step, as a factor of the cost at the first one. Null: any. */
  readonly maxPriceMillionths: bigint | null;
  readonly leaveAfterMs: number | null;
  readonly stayMs: number | null;
}

/** The interfaces that no account of the model has itself. */
export function listTranslated({ routes }: Pick<PublishedModel, "routes">): Interface[] {
  return INTERFACES.filter((name) => {
    const serving = routes.get(name);
    return serving?.every(({ translation }) => translation !== null) === true;
  });
}

export interface PolicyGroup
  extends Readonly<
    Omit<
      GroupRecord,
      | "interfaces"
      | "models"
      | "accounts"
      | "billing"
      | "onDisconnect"
      | "webSearchesMax"
      | "requestPolicy"
      | "fallback"
      | "createdAtMs"
    >
  > {
  readonly interfaces: ReadonlySet<Interface>;
  readonly onDisconnect: OnDisconnect;
  /** Searches of the web that are paid for in a request without a limit of its own. */
  readonly webSearchesMax: number;
  /** Who pays. `plans` are the plans that may pay; null means any. */
  readonly billing: { readonly charge: Charge; readonly plans: readonly string[] | null };
  /** The models that the request policy leaves. */
  readonly models: ReadonlyMap<string, PublishedModel>;
  readonly accounts: readonly PolicyAccount[];
  /** What the requests of its keys must meet; null if anything is allowed. */
  readonly requestPolicy: RequestPolicy | null;
  /** The same group for a key with a request policy of its own. */
  tightenedBy(keyPolicy: string): PolicyGroup;
}

export interface Snapshot {
  readonly groups: ReadonlyMap<string, PolicyGroup>;
  readonly accounts: ReadonlyMap<string, PolicyAccount>;
  /** Null if tools may not sign in. */
  readonly toolSignIn: ToolSignInPolicy | null;
}
