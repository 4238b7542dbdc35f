/**
 * Applies the request policy of the caller to a request that was admitted. Limits, holds, counts and upstreams then see
 * the changed request only.
 */

import { type MaybePromise, whenReady } from "../../base/maybe-promise.ts";
import type { BillingEngine } from "../../billing/engine/billing-engine.ts";
import type { PolicyActions } from "../../observe/policy-actions.ts";
import type { RequestPolicy } from "../../policy/request-policy.ts";
import { RULE_PLACES } from "../../protocols/request-policy/apply-rules.ts";
import { rejectInputs } from "../../protocols/request-policy/inputs-rule.ts";
import type { PolicyChange } from "../../protocols/request-policy/policy-body.ts";
import { CHANGES_MAX, FURTHER_CHANGES, violation } from "../../protocols/request-policy/policy-body.ts";
import type { BodyRules } from "../../records/request-policy.ts";
import type { Db } from "../../store/engine/db.ts";
import type { InputCounter } from "../metering/count-input.ts";
import type { InputEstimates } from "../metering/input-estimate.ts";
import type { RequestReader } from "../request/read-request.ts";
import type { AdmittedRequest } from "../request-context.ts";
import { lookUpStoredTokens } from "../response-calls/stored-tokens.ts";
import { findOrigin } from "../steps/conversation-holder.ts";
import type { ResponseRoutes } from "../stored-responses/response-routes.ts";

export interface RequestPolicyServices {
  readonly requests: Pick<RequestReader, "restrict">;
  readonly estimates: Pick<InputEstimates, "estimate">;
  readonly inputCounter: Pick<InputCounter, "countRequest">;
  readonly policyActions: PolicyActions;
  /** For conversations that an upstream stores. */
  readonly responses: Pick<ResponseRoutes, "find" | "findMessage">;
  readonly db: Db;
  readonly billingEngine: Pick<BillingEngine, "findUnbookedRow">;
}

/** Returns a promise only for a long body, and where the input must be counted. */
export function applyRequestPolicy(
  services: RequestPolicyServices,
  context: AdmittedRequest,
  { body: rules }: RequestPolicy,
): MaybePromise<void> {
  const { endpoint, request, caller, fallback } = context;
  // A count is free and produces nothing.
  if (rules === null || endpoint.output === "count") return undefined;
  if (endpoint.output === "image") rejectImages(context, rules);
  const restricted = services.requests.restrict(request, rules, {
    endpoint,
    owner: caller.key,
    keepsReceived: fallback !== null,
  });
  return whenReady(restricted, ({ request: changed, changes, outputCap }) => {
    context.request = changed;
    context.policyCap = outputCap;
    if (outputCap !== null) changed.lowerOutputLimit(outputCap);
    if (changes.length > 0) noteChanges(services.policyActions, context, changes);
    return rules.inputTokensMax === null
      ? undefined
      : checkInputTokens(services, context, rules.inputTokensMax);
  });
}

function noteChanges(
  actions: PolicyActions,
  { trace, fallback }: AdmittedRequest,
  changes: readonly PolicyChange[],
): void {
  trace.policyChanges = addChanges(fallback?.requested.policyChanges ?? null, changes);
  for (const { rule, param, to } of changes)
    if (param !== FURTHER_CHANGES) actions.add(rule, to === null ? "drop" : "change");
}

/** A fallback step restricts what the requested target has restricted before. */
function addChanges(
  earlier: readonly PolicyChange[] | null,
  changes: readonly PolicyChange[],
): readonly PolicyChange[] {
  if (earlier === null) return changes;
  const isSame = (a: PolicyChange, b: PolicyChange) =>
    a.rule === b.rule && a.param === b.param && a.to !== null && b.to !== null;
  const all = [
    ...earlier.filter((before) => !changes.some((change) => isSame(before, change))),
    ...changes.map((change) => ({
      ...change,
      from: (earlier.find((before) => isSame(before, change)) ?? change).from,
    })),
  ];
  const named = all.filter(({ param }) => param !== FURTHER_CHANGES);
  const further = all.find(({ param }) => param === FURTHER_CHANGES) ?? named[CHANGES_MAX];
  const shown = named.slice(0, CHANGES_MAX);
  return further === undefined
    ? shown
    : [...shown, { ...further, param: FURTHER_CHANGES, from: null, to: null }];
}

/** Images may be files of a form, which has no rules of its own. */
function rejectImages({ request }: AdmittedRequest, { inputsMax }: BodyRules): void {
  if (inputsMax.images === undefined && inputsMax.urls === undefined) return;
  const { pictures, remotePictures } = request.inputContents();
  rejectInputs({ images: pictures, files: 0, urls: remotePictures, audio: 0 }, inputsMax, "image");
}

/** An estimate may be too high, so a request is rejected by a count only. */
function checkInputTokens(
  services: RequestPolicyServices,
  context: AdmittedRequest,
  max: number,
): MaybePromise<void> {
  const { request, endpoint, caller } = context;
  return whenReady(countEarlierTokens(services, context), (earlier) => {
    if (services.estimates.estimate(request.publicModel, request.inputSize()) + earlier <= max)
      return undefined;
    const countable = { request, output: endpoint.output, owner: caller.key.id };
    return services.inputCounter.countRequest(countable).then((counted) => {
      const tokens = counted + earlier;
      if (tokens <= max) return;
      const [param = "input"] = RULE_PLACES.input_tokens[endpoint.interface] ?? [];
      const scope = earlier > 0 ? "the input and the earlier conversation have" : "the input has";
      throw violation(
        "input_tokens",
        param,
        `${scope} about ${tokens} tokens, and at most ${max} are allowed.`,
      );
    });
  });
}

const BYTES_PER_TOKEN = 4;

/** The conversation that the request continues. 0 if an upstream stores it and reported no length. */
function countEarlierTokens(services: RequestPolicyServices, context: AdmittedRequest): MaybePromise<number> {
  const { request, storedConversation } = context;
  if (request.previousResponseId === null) return 0;
  if (storedConversation !== null) {
    const { record, turns } = storedConversation;
    const bytes = () => turns.reduce((sum, turn) => sum + turn.length, 0);
    return record.tokens ?? Math.ceil(bytes() / BYTES_PER_TOKEN);
  }
  return findOrigin(services.responses, context, request.previousResponseId)
    .then((origin) => lookUpStoredTokens(services, origin))
    .then((tokens) => tokens ?? 0);
}

/** The header that names every change: `output_tokens=16000, tools=-web_search`. It ends with `...` if there are more. */
export function formatChanges(changes: readonly PolicyChange[]): string {
  return changes
    .map(({ rule, param, from, to }) => {
      if (param === FURTHER_CHANGES) return param;
      const name = rule === "force" ? param : rule;
      return to === null ? `${name}=-${toHeaderText(from ?? param)}` : `${name}=${to}`;
    })
    .join(", ");
}

/** Types of tools are chosen by clients. */
function toHeaderText(text: string): string {
  return text.replace(/[^\w.-]/g, "_");
}
