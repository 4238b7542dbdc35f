/**
 * Records → the immutable policy every request reads. Built whole, swapped by one reference.
 * A published model and the routes that serve it are one row here, so what `GET /v1/models` lists
 * and what admission allows cannot differ.
 */

import type { Tariff } from "../money/tariff.ts";
import {
  type AccountKind,
  type AccountRecord,
  type CallerLimits,
  type Charge,
  defaultOnDisconnect,
  type GroupAccess,
  type GroupRecord,
  INTERFACES,
  type Interface,
  type ModelRecord,
  type OnDisconnect,
  type PolicyRecords,
  type QueueSettings,
  type RateLimits,
} from "../records.ts";
import { mapModel } from "./model-map.ts";
import { type LookUpTerms, needsPrices, openPricing } from "./pricing.ts";

export interface PolicyAccount {
  readonly id: string;
  readonly name: string;
  readonly kind: AccountKind;
  readonly baseUrl: string;
  /** What of the base URL follows the host, without a trailing slash. */
  readonly basePath: string;
  readonly credential: string | null;
  readonly apiVersion: string | null;
  readonly interfaces: ReadonlySet<Interface>;
  /** Its `/responses` accepts WebSocket. */
  readonly websocket: boolean;
  readonly privateNetwork: boolean;
  readonly priority: number;
  readonly weight: number;
  readonly models: Readonly<Record<string, string>>;
  readonly limits: RateLimits;
}

/** One way to serve a public model: this account, under this name. */
export interface AccountRoute {
  readonly account: PolicyAccount;
  readonly upstreamModel: string;
}

export interface PublishedModel {
  readonly id: string;
  readonly createdAtMs: number;
  /** Interfaces that model, group and at least one account of the pool have in common, with the ways to serve each. */
  readonly routes: ReadonlyMap<Interface, readonly AccountRoute[]>;
  /** What it costs in this group; null where nobody has said a price, which no charging group can publish. */
  readonly tariff: Tariff | null;
  /** Tokens in and out that fit together, where known. */
  readonly contextTokens: number | null;
  /** The most output tokens of one answer, where known. */
  readonly outputTokensMax: number | null;
}

export interface PolicyGroup {
  readonly id: string;
  readonly name: string;
  readonly interfaces: ReadonlySet<Interface>;
  /** Who may make keys in it. Those that were made work whoever may. */
  readonly access: GroupAccess;
  readonly onDisconnect: OnDisconnect;
  /** Its keys may use Responses over WebSocket. */
  readonly websocket: boolean;
  /** Who pays; `plans` are those that may, and null means any. */
  readonly billing: { readonly charge: Charge; readonly plans: readonly string[] | null };
  /** For each key on its own. */
  readonly limits: CallerLimits;
  /** For all its keys together. */
  readonly groupLimits: CallerLimits;
  readonly queue: QueueSettings;
  readonly models: ReadonlyMap<string, PublishedModel>;
  readonly accounts: readonly PolicyAccount[];
}

export interface Snapshot {
  readonly groups: ReadonlyMap<string, PolicyGroup>;
  readonly accounts: ReadonlyMap<string, PolicyAccount>;
}

export interface CompileOptions {
  /** Opens an account's sealed credential. */
  unseal(account: AccountRecord): string | null;
  /** Where the built-in simulator listens, if it runs. */
  simulatorUrl: string | null;
}

export function compileSnapshot(records: PolicyRecords, options: CompileOptions): Snapshot {
  const accounts = new Map<string, PolicyAccount>();
  for (const record of records.accounts) {
    if (record.enabled) accounts.set(record.id, compileAccount(record, options));
  }
  const models = new Map(records.models.map((model) => [model.id, model]));
  const poolOf = openPools(accounts);
  const termsFor = openPricing(records);
  const groups = new Map<string, PolicyGroup>();
  for (const record of records.groups) {
    groups.set(record.id, compileGroup(record, models, poolOf(record.accounts), termsFor(record)));
  }
  return { groups, accounts };
}

function compileAccount(record: AccountRecord, options: CompileOptions): PolicyAccount {
  const simulated = record.kind === "simulator";
  const baseUrl = simulated ? (options.simulatorUrl ?? "") : record.baseUrl;
  return {
    id: record.id,
    name: record.name,
    kind: record.kind,
    baseUrl,
    basePath: pathOf(baseUrl),
    credential: options.unseal(record),
    apiVersion: record.apiVersion,
    interfaces: new Set(record.interfaces),
    websocket: record.websocket,
    privateNetwork: simulated || record.privateNetwork,
    priority: record.priority,
    weight: record.weight,
    models: record.models,
    limits: record.limits,
  };
}

function pathOf(baseUrl: string): string {
  const pathAt = baseUrl.indexOf("/", baseUrl.indexOf("://") + 3);
  return pathAt === -1 ? "" : baseUrl.slice(pathAt).replace(/\/+$/, "");
}

function compileGroup(
  record: GroupRecord,
  models: ReadonlyMap<string, ModelRecord>,
  pool: Pool,
  termsOf: LookUpTerms,
): PolicyGroup {
  const interfaces = new Set(record.interfaces);
  const priced = needsPrices(record);
  const published = new Map<string, PublishedModel>();
  for (const modelId of record.models) {
    const model = models.get(modelId);
    if (!model) continue;
    const ways = pool.waysTo(model.id);
    const routes = new Map<Interface, readonly AccountRoute[]>();
    for (const iface of model.interfaces) {
      const some = interfaces.has(iface) ? ways.get(iface) : undefined;
      if (some) routes.set(iface, some);
    }
    if (routes.size === 0) continue;
    const { tariff, contextTokens, outputTokensMax } = termsOf(model);
    // Nobody could say what it costs: better not served than served for free. `doctor` says so.
    if (tariff === null && priced) continue;
    const { id, createdAtMs } = model;
    published.set(id, { id, createdAtMs, routes, tariff, contextTokens, outputTokensMax });
  }
  return {
    id: record.id,
    name: record.name,
    interfaces,
    access: record.access,
    onDisconnect: record.onDisconnect ?? defaultOnDisconnect(record.billing.charge),
    websocket: record.websocket,
    billing: { charge: record.billing.charge, plans: record.billing.plans },
    limits: record.limits,
    groupLimits: record.groupLimits,
    queue: record.queue,
    models: published,
    accounts: pool.accounts,
  };
}

/** The accounts of one or more groups. */
interface Pool {
  readonly accounts: readonly PolicyAccount[];
  /** The ways to serve a model, best priority first; an interface without any is not in it. */
  waysTo(model: string): ReadonlyMap<Interface, readonly AccountRoute[]>;
}

/** Groups share pools and pools share accounts: what is the same is worked out and kept once. */
function openPools(accounts: ReadonlyMap<string, PolicyAccount>): (ids: readonly string[]) => Pool {
  const pools = new Map<string, Pool>();
  const routeTo = openRoutes();
  return (ids) => {
    const key = ids.join(" ");
    const known = pools.get(key);
    if (known) return known;
    const pool = openPool(
      ids.flatMap((id) => accounts.get(id) ?? []),
      routeTo,
    );
    pools.set(key, pool);
    return pool;
  };
}

function openPool(accounts: readonly PolicyAccount[], routeTo: RouteTo): Pool {
  const ordered = accounts.toSorted((a, b) => a.priority - b.priority);
  const known = new Map<string, ReadonlyMap<Interface, readonly AccountRoute[]>>();
  return {
    accounts,
    waysTo(model) {
      const found = known.get(model);
      if (found) return found;
      const all = ordered.flatMap((account) => routeTo(account, model) ?? []);
      const ways = new Map<Interface, readonly AccountRoute[]>();
      for (const iface of INTERFACES) {
        const some = all.filter(({ account }) => account.interfaces.has(iface));
        // Mostly every account speaks everything: then one list serves all interfaces.
        if (some.length > 0) ways.set(iface, some.length === all.length ? all : some);
      }
      known.set(model, ways);
      return ways;
    },
  };
}

type RouteTo = (account: PolicyAccount, model: string) => AccountRoute | null;

function openRoutes(): RouteTo {
  const byAccount = new Map<PolicyAccount, Map<string, AccountRoute | null>>();
  return (account, model) => {
    const routes = byAccount.get(account) ?? new Map<string, AccountRoute | null>();
    const known = routes.get(model);
    if (known !== undefined) return known;
    const upstreamModel = mapModel(account.models, model);
    const route = upstreamModel === null ? null : { account, upstreamModel };
    routes.set(model, route);
    byAccount.set(account, routes);
    return route;
  };
}
