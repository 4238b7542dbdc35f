/** A group as its form holds it, and as the API accepts it. */

import type { ResponseBody } from "../../../api.ts";
import { type StepValue, stepConditions, stepValues } from "../../../forms/fallback.tsx";
import { type LimitsValue, limitsBody, limitsValue } from "../../../forms/limits.tsx";
import { type OtherSwitch, readSwitches, type Switches } from "../../../forms/switches.tsx";
import { type PriceValues, priceDocument, priceValues } from "../policy/price.ts";

export type GroupDocument = ResponseBody<"admin.groups.get">["document"];
export type Interface = NonNullable<GroupDocument["interfaces"]>[number];
export type Charge = NonNullable<NonNullable<GroupDocument["billing"]>["charge"]>;

export const INTERFACES: readonly Interface[] = [
  "chat",
  "responses",
  "messages",
  "gemini",
  "embeddings",
  "images",
];

export interface GroupValues {
  name: string;
  access: "everyone" | "members";
  interfaces: readonly string[];
  /** In the order of the list. */
  models: readonly string[];
  /** In the order of the pool. */
  accounts: readonly string[];
  charge: Charge;
  plans: readonly string[];
  multiplier: string;
  /** The multiplier of models; empty is 1. */
  modelMultipliers: Readonly<Record<string, string>>;
  /** Replaces the models' own prices. */
  modelPrices: Readonly<Record<string, PriceValues>>;
  limits: LimitsValue;
  groupLimits: LimitsValue;
  maxWaiting: number | null;
  timeout: string;
  /** Empty: the default for the charge of the group. */
  onDisconnect: "" | "cancel" | "drain";
  /** Null: the default. */
  webSearchesMax: number | null;
  websocket: boolean;
  switches: Switches<OtherSwitch<GroupDocument, "websocket">>;
  capture: NonNullable<GroupDocument["capture"]>;
  /** Empty: none. */
  requestPolicy: string;
  fallback: readonly StepValue[];
}

export function groupValues(document: GroupDocument): GroupValues {
  const { billing = {} } = document;
  const prices = Object.entries(billing.model_prices ?? {});
  return {
    name: document.name,
    access: document.access ?? "everyone",
    interfaces: document.interfaces ?? INTERFACES,
    models: document.models ?? [],
    accounts: document.accounts ?? [],
    charge: billing.charge ?? "none",
    plans: billing.plans ?? [],
    multiplier: billing.multiplier ?? "1",
    modelMultipliers: billing.model_multipliers ?? {},
    modelPrices: Object.fromEntries(prices.map(([model, price]) => [model, priceValues(price)])),
    limits: limitsValue(document.limits),
    groupLimits: limitsValue(document.group_limits),
    maxWaiting: document.queue?.max_waiting ?? null,
    timeout: document.queue?.timeout ?? "",
    onDisconnect: document.on_disconnect ?? "",
    webSearchesMax: document.web_searches_max ?? null,
    websocket: document.websocket ?? true,
    switches: readSwitches(document, ["websocket"]),
    capture: document.capture ?? "off",
    requestPolicy: document.request_policy ?? "",
    fallback: stepValues("group", document.fallback),
  };
}

export const NEW_GROUP = groupValues({ name: "" });

/** The settings of removed models are removed with them. */
export function groupDocument(values: GroupValues): GroupDocument {
  const multipliers = Object.entries(values.modelMultipliers)
    .map(([model, times]): [string, string] => [model, times.trim()])
    .filter(([model, times]) => values.models.includes(model) && times !== "");
  const prices = Object.entries(values.modelPrices).flatMap(([model, price]) => {
    const document = priceDocument(price);
    return values.models.includes(model) && document !== undefined ? [[model, document] as const] : [];
  });
  const limits = limitsBody(values.limits);
  const groupLimits = limitsBody(values.groupLimits);
  const queue = {
    ...(values.maxWaiting === null ? {} : { max_waiting: values.maxWaiting }),
    ...(values.timeout.trim() === "" ? {} : { timeout: values.timeout.trim() }),
  };
  return {
    name: values.name,
    access: values.access,
    interfaces: INTERFACES.filter((name) => values.interfaces.includes(name)),
    models: [...values.models],
    accounts: [...values.accounts],
    billing: {
      charge: values.charge,
      ...(values.charge === "subscription" && values.plans.length > 0 ? { plans: [...values.plans] } : {}),
      multiplier: values.multiplier.trim() === "" ? "1" : values.multiplier.trim(),
      ...(multipliers.length === 0 ? {} : { model_multipliers: Object.fromEntries(multipliers) }),
      ...(prices.length === 0 ? {} : { model_prices: Object.fromEntries(prices) }),
    },
    ...(Object.keys(limits).length === 0 ? {} : { limits }),
    ...(Object.keys(groupLimits).length === 0 ? {} : { group_limits: groupLimits }),
    ...(Object.keys(queue).length === 0 ? {} : { queue }),
    ...(values.onDisconnect === "" ? {} : { on_disconnect: values.onDisconnect }),
    ...(values.webSearchesMax === null ? {} : { web_searches_max: values.webSearchesMax }),
    ...(values.websocket ? {} : { websocket: false }),
    ...values.switches,
    ...(values.capture === "off" ? {} : { capture: values.capture }),
    ...(values.requestPolicy === "" ? {} : { request_policy: values.requestPolicy }),
    ...(values.fallback.length === 0
      ? {}
      : { fallback: values.fallback.map((step) => ({ group: step.target, ...stepConditions(step) })) }),
  };
}
