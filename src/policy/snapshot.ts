/**
 * Compiles records into the immutable policy that every request reads. It is built as a whole and swapped by one
 * reference. A published model and its routes are one object, so `GET /v1/models` and admission cannot disagree.
 */

import type { PolicyAccount } from "../accounts/account.ts";
import { isBuiltIn, KINDS } from "../accounts/kinds/table.ts";
import type { Tariff } from "../money/tariff.ts";
import type { AccountRecord } from "../records/account.ts";
import {
  type Charge,
  defaultOnDisconnect,
  type GroupRecord,
  type OnDisconnect,
  WEB_SEARCHES_DEFAULT,
} from "../records/group.ts";
import { type Dialect, INTERFACES, type Interface } from "../records/interfaces.ts";
import type { ModelRecord } from "../records/model.ts";
import type { PolicyRecords } from "../records/policy.ts";
import type { RequestPolicyRecord } from "../records/request-policy.ts";
import { mapModel } from "./model-map.ts";
import { type LookUpTerms, needsPrices, openPricing } from "./pricing.ts";
import {
  allowsModel,
  compileRequestPolicy,
  intersectPolicies,
  type RequestPolicy,
} from "./request-policy.ts";
import { findTranslation, hasInterface, modelInterfaces } from "./translation.ts";

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
}

export interface CompileOptions {
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
  const findPolicy = openRequestPolicies(records.requestPolicies ?? []);
  const groups = new Map<string, PolicyGroup>();
  for (const record of records.groups) {
    const group = compileGroup(record, models, getPool(record.accounts), termsFor(record));
    groups.set(record.id, applyPolicies(group, record.requestPolicy, findPolicy));
  }
  return { groups, accounts };
}

type FindPolicy = (name: string) => RequestPolicy;

function openRequestPolicies(records: readonly RequestPolicyRecord[]): FindPolicy {
  const byName = new Map(records.map((record) => [record.name, record]));
  const compiled = new Map<string, RequestPolicy>();
  return (name) => {
    const policy = compiled.get(name) ?? compileRequestPolicy(byName, name);
    compiled.set(name, policy);
    return policy;
  };
}

/** A group whose request policy is not applied yet. */
type UnrestrictedGroup = Omit<PolicyGroup, "requestPolicy" | "tightenedBy">;

/** Each pair of a group and the policy of a key is compiled once, when the first key needs it. */
function applyPolicies(
  group: UnrestrictedGroup,
  ownPolicy: string | null,
  findPolicy: FindPolicy,
): PolicyGroup {
  const variants = new Map<string, PolicyGroup>();
  const restrict = (requestPolicy: RequestPolicy | null): PolicyGroup => ({
    ...group,
    models: requestPolicy === null ? group.models : filterModels(group.models, requestPolicy),
    requestPolicy,
    tightenedBy(keyPolicy) {
      const known = variants.get(keyPolicy);
      if (known !== undefined) return known;
      const variant = restrict(intersectPolicies(own, findPolicy(keyPolicy)));
      variants.set(keyPolicy, variant);
      return variant;
    },
  });
  const own = ownPolicy === null ? null : findPolicy(ownPolicy);
  return restrict(own);
}

function filterModels(
  models: ReadonlyMap<string, PublishedModel>,
  policy: RequestPolicy,
): ReadonlyMap<string, PublishedModel> {
  return policy.models.length === 0 ? models : new Map([...models].filter(([id]) => allowsModel(policy, id)));
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
    published.set(id, { id, createdAtMs, routes, tariff, contextTokens, outputTokensMax });
  }
  const { createdAtMs: _, requestPolicy: __, ...settings } = record;
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
  /**
   * The routes of a model, best priority first, and native before translated ones. An interface without routes is
   * omitted.
   */
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
