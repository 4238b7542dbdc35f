import { Document, isMap, isScalar, visit, type YAMLMap } from "yaml";
import { type Clock, systemClock } from "../clock.ts";
import { type GroupBilling, type Price, TOKEN_UNITS } from "../records.ts";
import type { Db } from "../store/db.ts";
import { shownInstant } from "./difference.ts";
import { writtenPlan, writtenSubscriptions } from "./plan-grants.ts";
import { activeKeys } from "./plan-keys.ts";
import { readState, type State } from "./step.ts";
import { durationText, writtenLimits, writtenQueue } from "./usage-limits.ts";

/** The present state in the file's form. Secrets are left out, and applying the result again keeps them. */
export async function exportFile(db: Db, clock: Clock = systemClock): Promise<string> {
  const state = await readState(db);
  const document = new Document(contentsOf(state, clock.nowMs()));
  const note = (section: string, index: number, text: string) => {
    const item = document.getIn([section, index]);
    if (isMap(item)) noteAfterName(item, text);
  };
  state.accounts.forEach(({ sealedCredential }, i) => {
    if (sealedCredential !== null) note("accounts", i, " credential: kept, not shown");
  });
  state.users.forEach(({ passwordHash }, i) => {
    if (passwordHash !== null) note("users", i, " password: kept, not shown");
  });
  onOneLine(document);
  return document.toString({ lineWidth: 0, flowCollectionPadding: true });
}

function contentsOf(state: State, nowMs: number) {
  const accountNames = new Map(state.accounts.map(({ id, name }) => [id, name]));
  const groupNames = new Map(state.groups.map(({ id, name }) => [id, name]));
  const emails = new Map(state.users.map(({ id, email }) => [id, email]));
  const contents = {
    registration: "closed",
    ...(state.usageRowsKeptMs === null
      ? {}
      : { retention: { usage_rows: durationText(state.usageRowsKeptMs) } }),
    models: state.models.map(({ id, interfaces, price, contextTokens, outputTokensMax }) => ({
      id,
      interfaces,
      ...(price === null ? {} : { price: inPriceOrder(price) }),
      ...(contextTokens === null ? {} : { context_tokens: contextTokens }),
      ...(outputTokensMax === null ? {} : { max_output_tokens: outputTokensMax }),
    })),
    accounts: state.accounts.map((account) => ({
      name: account.name,
      kind: account.kind,
      ...(account.kind === "simulator" ? {} : { base_url: account.baseUrl }),
      interfaces: account.interfaces,
      ...(account.apiVersion === null ? {} : { api_version: account.apiVersion }),
      ...(account.privateNetwork ? { private_network: true } : {}),
      priority: account.priority,
      weight: account.weight,
      ...written("limits", writtenLimits(account.limits)),
      models: account.models,
      ...(account.enabled ? {} : { enabled: false }),
    })),
    groups: state.groups.map((group) => ({
      name: group.name,
      interfaces: group.interfaces,
      models: group.models,
      accounts: group.accounts.map((id) => accountNames.get(id) ?? id),
      billing: writtenBilling(group.billing),
      ...written("limits", writtenLimits(group.limits)),
      ...written("group_limits", writtenLimits(group.groupLimits)),
      queue: writtenQueue(group.queue),
      on_disconnect: group.onDisconnect,
    })),
    ...(state.plans.length === 0 ? {} : { plans: state.plans.map(writtenPlan) }),
    // Without a balance: it lives in the ledger, and a file that named one would be wrong a request later.
    users: state.users.map(({ id, email, role, limits }) => ({
      email,
      role,
      ...written("limits", writtenLimits(limits)),
      ...written("subscriptions", writtenSubscriptions(state, id, nowMs)),
    })),
    keys: [...activeKeys(state).values()].map((key) => ({
      name: key.name,
      ...(key.userId === null ? {} : { user: emails.get(key.userId) ?? key.userId }),
      group: groupNames.get(key.groupId) ?? key.groupId,
      ...(key.expiresAtMs === null ? {} : { expires: shownInstant(key.expiresAtMs) }),
      ...written("limits", writtenLimits(key.limits)),
    })),
  };
  return escaped(contents);
}

function written(field: string, value: object | undefined): object {
  return value === undefined ? {} : { [field]: value };
}

function writtenBilling({ charge, plans, multiplier, modelMultipliers, modelPrices }: GroupBilling): object {
  const prices = Object.entries(modelPrices).map(([model, price]) => [model, inPriceOrder(price)]);
  return {
    charge,
    ...(plans === null ? {} : { plans }),
    multiplier,
    ...(Object.keys(modelMultipliers).length === 0 ? {} : { model_multipliers: modelMultipliers }),
    ...(prices.length === 0 ? {} : { model_prices: Object.fromEntries(prices) }),
  };
}

const PRICE_ORDER: readonly string[] = [
  ...TOKEN_UNITS,
  "image",
  "images",
  "request",
  "long_context",
] satisfies (keyof Price)[];

function inPriceOrder(price: Price): object {
  const order = (unit: string) => PRICE_ORDER.indexOf(unit);
  return Object.fromEntries(Object.entries(price).sort(([a], [b]) => order(a) - order(b)));
}

/** A stored `${` is text, not a variable. Names on the left of a map are never interpolated. */
function escaped(value: unknown): unknown {
  if (typeof value === "string") return value.replaceAll("${", () => "$${");
  if (Array.isArray(value)) return value.map(escaped);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, escaped(field)]));
}

const ON_ONE_LINE = new Set<unknown>(["price", "model_prices", "models", "limits", "group_limits", "queue"]);

/** Lists of names, prices, limits and maps of names, as an operator writes them. */
function onOneLine(document: Document): void {
  visit(document, {
    Seq(_, list) {
      if (list.items.every(isScalar)) list.flow = true;
    },
    Pair(_, { key, value }) {
      if (isScalar(key) && ON_ONE_LINE.has(key.value) && isMap(value)) value.flow = true;
    },
  });
}

function noteAfterName(item: YAMLMap, text: string): void {
  const second = item.items[1];
  if (second !== undefined && isScalar(second.key)) second.key.commentBefore = text;
}
