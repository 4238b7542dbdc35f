/**
 * Records → the immutable policy every request reads. Built whole, swapped by one reference.
 * A published model and the routes that serve it are one row here, so what `GET /v1/models` lists
 * and what admission allows cannot differ.
 */

import type {
  AccountKind,
  AccountRecord,
  GroupRecord,
  Interface,
  ModelRecord,
  OnDisconnect,
  PolicyRecords,
} from "../records.ts";
import { mapModel } from "./model-map.ts";

export interface Account {
  readonly id: string;
  readonly name: string;
  readonly kind: AccountKind;
  readonly baseUrl: string;
  readonly credential: string | null;
  readonly apiVersion: string | null;
  readonly interfaces: ReadonlySet<Interface>;
  readonly privateNetwork: boolean;
  readonly priority: number;
  readonly weight: number;
  readonly models: Readonly<Record<string, string>>;
}

/** One way to serve a public model: this account, under this name. */
export interface Route {
  readonly account: Account;
  readonly upstreamModel: string;
}

export interface PublishedModel {
  readonly id: string;
  readonly createdAtMs: number;
  /** Interfaces that model, group and at least one account of the pool have in common, with the ways to serve each. */
  readonly routes: ReadonlyMap<Interface, readonly Route[]>;
}

export interface Group {
  readonly id: string;
  readonly name: string;
  readonly interfaces: ReadonlySet<Interface>;
  readonly onDisconnect: OnDisconnect;
  readonly models: ReadonlyMap<string, PublishedModel>;
  readonly accounts: readonly Account[];
}

export interface Snapshot {
  readonly groups: ReadonlyMap<string, Group>;
  readonly accounts: ReadonlyMap<string, Account>;
}

export interface CompileOptions {
  /** Opens an account's sealed credential. */
  unseal(account: AccountRecord): string | null;
  /** Where the built-in simulator listens, if it runs. */
  simulatorUrl: string | null;
}

export function compileSnapshot(records: PolicyRecords, options: CompileOptions): Snapshot {
  const accounts = new Map<string, Account>();
  for (const record of records.accounts) {
    if (record.enabled) accounts.set(record.id, compileAccount(record, options));
  }
  const models = new Map(records.models.map((model) => [model.id, model]));
  const routesOf = routeFinder();
  const groups = new Map<string, Group>();
  for (const record of records.groups) {
    groups.set(record.id, compileGroup(record, models, accounts, routesOf));
  }
  return { groups, accounts };
}

function compileAccount(record: AccountRecord, options: CompileOptions): Account {
  const simulated = record.kind === "simulator";
  return {
    id: record.id,
    name: record.name,
    kind: record.kind,
    baseUrl: simulated ? (options.simulatorUrl ?? "") : record.baseUrl,
    credential: options.unseal(record),
    apiVersion: record.apiVersion,
    interfaces: new Set(record.interfaces),
    privateNetwork: simulated || record.privateNetwork,
    priority: record.priority,
    weight: record.weight,
    models: record.models,
  };
}

function compileGroup(
  record: GroupRecord,
  models: ReadonlyMap<string, ModelRecord>,
  accounts: ReadonlyMap<string, Account>,
  routesOf: RouteFinder,
): Group {
  const pool = record.accounts.flatMap((id) => accounts.get(id) ?? []);
  const poolKey = record.accounts.join(" ");
  const interfaces = new Set(record.interfaces);
  const published = new Map<string, PublishedModel>();
  for (const modelId of record.models) {
    const model = models.get(modelId);
    if (!model) continue;
    const routes = new Map<Interface, readonly Route[]>();
    for (const iface of model.interfaces) {
      if (!interfaces.has(iface)) continue;
      const ways = routesOf(poolKey, pool, model.id, iface);
      if (ways.length > 0) routes.set(iface, ways);
    }
    if (routes.size > 0) published.set(model.id, { id: model.id, createdAtMs: model.createdAtMs, routes });
  }
  return {
    id: record.id,
    name: record.name,
    interfaces,
    onDisconnect: record.onDisconnect,
    models: published,
    accounts: pool,
  };
}

type RouteFinder = (
  poolKey: string,
  pool: readonly Account[],
  model: string,
  iface: Interface,
) => readonly Route[];

/** Groups often share a pool: each (pool, model, interface) is worked out once. */
function routeFinder(): RouteFinder {
  const known = new Map<string, readonly Route[]>();
  return (poolKey, pool, model, iface) => {
    const key = `${iface} ${model} ${poolKey}`;
    const found = known.get(key);
    if (found) return found;
    const routes: Route[] = [];
    for (const account of pool) {
      if (!account.interfaces.has(iface)) continue;
      const upstreamModel = mapModel(account.models, model);
      if (upstreamModel !== null) routes.push({ account, upstreamModel });
    }
    routes.sort((a, b) => a.account.priority - b.account.priority);
    known.set(key, routes);
    return routes;
  };
}
