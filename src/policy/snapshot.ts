/**
 * Compiles records into the immutable policy that every request reads. It is built as a whole and swapped by one
 * reference. A published model and its routes are one object, so `GET /v1/models` and admission cannot disagree.
 */

import type { PolicyAccount } from "../accounts/account.ts";
import { isBuiltIn, KINDS } from "../accounts/kinds/table.ts";
import type { AccountRecord } from "../records/account.ts";
import { defaultOnDisconnect, type GroupRecord, WEB_SEARCHES_DEFAULT } from "../records/group.ts";
import { type Dialect, INTERFACES, type Interface } from "../records/interfaces.ts";
import type { ModelRecord } from "../records/model.ts";
import type { PolicyRecords } from "../records/policy.ts";
import type { RequestPolicyRecord } from "../records/request-policy.ts";
import { type FindPolicy, GroupComposer, type UnrestrictedGroup } from "./group-composer.ts";
import { mapModel } from "./model-map.ts";
import { type LookUpTerms, needsPrices, openPricing } from "./pricing.ts";
import type { AccountRoute, PublishedModel, Snapshot } from "./published.ts";
import { compileRequestPolicy, type RequestPolicy } from "./request-policy.ts";
import { compileToolSignIn } from "./tool-sign-in.ts";
import { findTranslation, hasInterface, modelInterfaces } from "./translation.ts";

export {
  type AccountRoute,
  listTranslated,
  type PolicyGroup,
  type PublishedFallbackStep,
  type PublishedModel,
  type Snapshot,
} from "./published.ts";

interface CompileOptions {
  /** Decrypts an account's credential. */
  unseal(account: AccountRecord): string | null;
  /** URL of the built-in simulator, if it runs. */
  simulatorUrl: string | null;
}

export function compileSnapshot(records: PolicyRecords, options: CompileOptions): Snapshot {
  const accounts = new Map<string, PolicyAccount>();
  for (const record of records.accounts) {
    if (record.enabled) accounts.set(record.id, compileAccount(record, options));
  }
  const models = new Map(records.models.map((model) => [model.id, model]));
  const getPool = openPools(accounts);
  const termsFor = openPricing(records);
  const composer = new GroupComposer(models, openRequestPolicies(records.requestPolicies ?? []));
  for (const record of records.groups)
    composer.add(record, compileGroup(record, models, getPool(record.accounts), termsFor(record)));
  return { groups: composer.composeAll(), accounts, toolSignIn: compileToolSignIn(records) };
}

function openRequestPolicies(records: readonly RequestPolicyRecord[]): FindPolicy {
  const byName = new Map(records.map((record) => [record.name, record]));
  const compiled = new Map<string, RequestPolicy>();
  return (name) => {
    const policy = compiled.get(name) ?? compileRequestPolicy(byName, name);
    compiled.set(name, policy);
    return policy;
  };
}

function compileAccount(record: AccountRecord, options: CompileOptions): PolicyAccount {
  const simulated = isBuiltIn(record.kind);
  const baseUrl = simulated ? (options.simulatorUrl ?? "") : record.baseUrl;
  const { sealedCredential: _, enabled: __, createdAtMs: ___, ...settings } = record;
  return {
    ...settings,
    baseUrl,
    basePath: readPath(baseUrl),
    credential: options.unseal(record),
    interfaces: new Set(record.interfaces),
    privateNetwork: simulated || record.privateNetwork,
  };
}

function readPath(baseUrl: string): string {
  const pathAt = baseUrl.indexOf("/", baseUrl.indexOf("://") + 3);
  return pathAt === -1 ? "" : baseUrl.slice(pathAt).replace(/\/+$/, "");
}

const NO_STEPS: PublishedModel["fallback"] = [];

function compileGroup(
  record: GroupRecord,
  models: ReadonlyMap<string, ModelRecord>,
  pool: Pool,
  lookUpTerms: LookUpTerms,
): UnrestrictedGroup {
  const interfaces = new Set(record.interfaces);
  const priced = needsPrices(record);
  const published = new Map<string, PublishedModel>();
  for (const modelId of record.models) {
    const model = models.get(modelId);
    if (!model) continue;
    const routesByInterface = pool.findRoutes(model.id);
    const routes = new Map<Interface, readonly AccountRoute[]>();
    for (const iface of model.interfaces) {
      const matching = interfaces.has(iface) ? routesByInterface.get(iface) : undefined;
      if (matching) routes.set(iface, matching);
    }
    if (routes.size === 0) continue;
    const { tariff, contextTokens, outputTokensMax } = lookUpTerms(model);
    // Without a price the model is not served, because it would be free. `doctor` reports this.
    if (tariff === null && priced) continue;
    const { id, createdAtMs } = model;
    const fallback = NO_STEPS;
    published.set(id, { id, createdAtMs, routes, tariff, contextTokens, outputTokensMax, fallback });
  }
  const { createdAtMs: _, requestPolicy: __, fallback: ___, ...settings } = record;
  return {
    ...settings,
    interfaces,
    onDisconnect: record.onDisconnect ?? defaultOnDisconnect(record.billing.charge),
    webSearchesMax: record.webSearchesMax ?? WEB_SEARCHES_DEFAULT,
    billing: { charge: record.billing.charge, plans: record.billing.plans },
    models: published,
    accounts: pool.accounts,
  };
}

/** The accounts of one or more groups. */
interface Pool {
  readonly accounts: readonly PolicyAccount[];
  /** A model's routes: best priority first, native before translated. None: the interface is omitted. */
  findRoutes(model: string): ReadonlyMap<Interface, readonly AccountRoute[]>;
}

/** Groups share pools and pools share accounts, so equal parts are computed and stored once. */
function openPools(accounts: ReadonlyMap<string, PolicyAccount>): (ids: readonly string[]) => Pool {
  const pools = new Map<string, Pool>();
  const routeTo = openRoutes();
  return (ids) => {
    const key = ids.join(" ");
    const cached = pools.get(key);
    if (cached) return cached;
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
  const cache = new Map<string, ReadonlyMap<Interface, readonly AccountRoute[]>>();
  return {
    accounts,
    findRoutes(model) {
      const cached = cache.get(model);
      if (cached) return cached;
      const native = ordered.flatMap((account) => routeTo(account, model, null) ?? []);
      const routesByInterface = new Map<Interface, readonly AccountRoute[]>();
      for (const iface of INTERFACES) {
        // Usually every account supports every interface: then one list serves all of them.
        const routes = native.every((route) => hasInterface(route, iface))
          ? native
          : findInterfaceRoutes(ordered, model, iface, routeTo);
        if (routes.length > 0) routesByInterface.set(iface, routes);
      }
      cache.set(model, routesByInterface);
      return routesByInterface;
    },
  };
}

function findInterfaceRoutes(
  accounts: readonly PolicyAccount[],
  model: string,
  iface: Interface,
  routeTo: RouteTo,
): readonly AccountRoute[] {
  const routes = accounts.flatMap((account) => {
    const upstreamModel = KINDS[account.kind].modelInterface === null ? "" : mapModel(account.models, model);
    const translation = findTranslation(modelInterfaces(account, upstreamModel ?? ""), iface);
    return translation === "none" ? [] : (routeTo(account, model, translation) ?? []);
  });
  return routes.sort((a, b) => a.account.priority - b.account.priority || compareTranslation(a, b));
}

function compareTranslation(a: AccountRoute, b: AccountRoute): number {
  return Number(a.translation !== null) - Number(b.translation !== null);
}

type RouteTo = (account: PolicyAccount, model: string, translation: Dialect | null) => AccountRoute | null;

function openRoutes(): RouteTo {
  const byAccount = new Map<PolicyAccount, Map<string, AccountRoute | null>>();
  return (account, model, translation) => {
    const routes = byAccount.get(account) ?? new Map<string, AccountRoute | null>();
    const key = translation === null ? model : `${translation} ${model}`;
    const cached = routes.get(key);
    if (cached !== undefined) return cached;
    const upstreamModel = mapModel(account.models, model);
    const route = upstreamModel === null ? null : { account, upstreamModel, translation };
    routes.set(key, route);
    byAccount.set(account, routes);
    return route;
  };
}
