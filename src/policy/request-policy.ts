/**
 * Compiles the request policies of a group and of a key into the one that their requests must meet: the intersection of
 * both. A policy can only forbid, so two are never looser than one.
 */

import { lowest } from "../base/lowest.ts";
import { type IpNetwork, parseNetwork } from "../net/http-server/networks.ts";
import {
  type BodyRules,
  EFFORTS,
  FORCED_MEMBERS,
  INPUT_KINDS,
  type InputKind,
  type OverDenied,
  type OverMaximum,
  type RequestPolicyRecord,
  type RequestRules,
} from "../records/request-policy.ts";

export interface RequestPolicy {
  /** The policies that it consists of. */
  readonly names: readonly string[];
  /** A model must match a pattern of each list. */
  readonly models: readonly (readonly string[])[];
  /** The address of the client must be in a network of each list. */
  readonly networks: readonly (readonly IpNetwork[])[];
  /** Null if the body may contain anything. */
  readonly body: BodyRules | null;
  /** A policy that this program cannot apply: it has unknown rules, or does not exist. Every request is rejected. */
  readonly unusable: string | null;
}

/** Compiles the policy with this name. One that is not among the records rejects every request. */
export function compileRequestPolicy(
  policies: ReadonlyMap<string, RequestPolicyRecord>,
  name: string,
): RequestPolicy {
  const rules = policies.get(name)?.rules ?? null;
  const networks = (rules?.networks ?? []).map(parseNetwork);
  if (rules === null || networks.includes(null))
    return { names: [name], models: [], networks: [], body: null, unusable: name };
  return {
    names: [name],
    models: rules.models === undefined ? [] : [rules.models],
    networks: rules.networks === undefined ? [] : [networks.filter((network) => network !== null)],
    body: compileBodyRules(rules),
    unusable: null,
  };
}

function compileBodyRules(rules: RequestRules): BodyRules | null {
  const { input_tokens, output_tokens, effort, service_tiers, tools, inputs, force } = rules;
  const parts = [input_tokens, output_tokens, effort, service_tiers, tools, inputs, force];
  if (parts.every((part) => part === undefined)) return null;
  const inputsMax: { [kind in InputKind]?: number } = {};
  for (const kind of INPUT_KINDS) {
    const limit = inputs?.[kind];
    if (limit !== undefined) inputsMax[kind] = limit === "deny" ? 0 : limit;
  }
  return {
    inputTokensMax: input_tokens?.max ?? null,
    outputTokens: output_tokens === undefined ? null : { over: "lower", ...definedOnly(output_tokens) },
    effort: effort === undefined ? null : { over: "lower", ...definedOnly(effort) },
    serviceTiers: service_tiers?.map((tier) => tier.toLowerCase()) ?? null,
    tools: tools === undefined ? null : { over: "drop", ...definedOnly(tools) },
    inputsMax,
    forced: FORCED_MEMBERS.filter((name) => force?.[name] === false),
  };
}

/** A member that is undefined must not replace a default. */
function definedOnly<Value extends object>(
  value: Value,
): { [Name in keyof Value]: NonNullable<Value[Name]> } {
  const entries = Object.entries(value).filter(([, member]) => member !== undefined);
  return Object.fromEntries(entries) as { [Name in keyof Value]: NonNullable<Value[Name]> };
}

/** Lowest number, smallest set, a denial wins, and `reject` wins over a change. Null: no policy. */
export function intersectPolicies(a: RequestPolicy | null, b: RequestPolicy | null): RequestPolicy | null {
  if (a === null || b === null || a === b) return a ?? b;
  return {
    names: [...a.names, ...b.names.filter((name) => !a.names.includes(name))],
    models: [...a.models, ...b.models],
    networks: [...a.networks, ...b.networks],
    body: a.body === null || b.body === null ? (a.body ?? b.body) : intersectBodies(a.body, b.body),
    unusable: a.unusable ?? b.unusable,
  };
}

function intersectBodies(a: BodyRules, b: BodyRules): BodyRules {
  const inputsMax: { [kind in InputKind]?: number } = { ...a.inputsMax };
  for (const kind of INPUT_KINDS) {
    const limit = lowest(a.inputsMax[kind] ?? null, b.inputsMax[kind] ?? null);
    if (limit !== null) inputsMax[kind] = limit;
  }
  return {
    inputTokensMax: lowest(a.inputTokensMax, b.inputTokensMax),
    outputTokens: both(a.outputTokens, b.outputTokens, (one, other) => ({
      max: Math.min(one.max, other.max),
      over: strictest(one.over, other.over),
    })),
    effort: both(a.effort, b.effort, (one, other) => ({
      max: EFFORTS.indexOf(one.max) <= EFFORTS.indexOf(other.max) ? one.max : other.max,
      over: strictest(one.over, other.over),
    })),
    serviceTiers: both(a.serviceTiers, b.serviceTiers, (one, other) =>
      one.filter((tier) => other.includes(tier)),
    ),
    tools: both(a.tools, b.tools, (one, other) => ({
      deny: [...new Set([...one.deny, ...other.deny])],
      over: strictest(one.over, other.over),
    })),
    inputsMax,
    forced: FORCED_MEMBERS.filter((name) => a.forced.includes(name) || b.forced.includes(name)),
  };
}

function both<Value>(
  a: Value | null,
  b: Value | null,
  intersect: (a: Value, b: Value) => Value,
): Value | null {
  return a === null || b === null ? (a ?? b) : intersect(a, b);
}

function strictest<Over extends OverMaximum | OverDenied>(a: Over, b: Over): Over {
  return a === "reject" ? a : b;
}

/** An exact name, or the start of one before a `*`. */
export function matchesModel(pattern: string, model: string): boolean {
  return pattern.endsWith("*") ? model.startsWith(pattern.slice(0, -1)) : pattern === model;
}

/** Whether the policy leaves the model to its callers. */
export function allowsModel({ models }: Pick<RequestPolicy, "models">, model: string): boolean {
  return models.every((patterns) => patterns.some((pattern) => matchesModel(pattern, model)));
}
