/**
 * Explains why a key can or cannot call a model: first by the records, then by the state of the running
 * gateway. The steps end with the first one that is not ok, because a request would fail there.
 */

import { z } from "zod";
import { MINUTE_MS } from "../../../base/time.ts";
import { lookUpGroup } from "../../../gateway/admission/authenticate.ts";
import { callerSubjects } from "../../../gateway/admission/caller-limits.ts";
import { LEAST_USE } from "../../../limits/amounts.ts";
import type { Shortage } from "../../../limits/limiter-types.ts";
import { usdText } from "../../../money/nano.ts";
import { explainAccess, type Reason } from "../../../policy/explain.ts";
import { explainFallback, FALLBACK_OBSTACLES } from "../../../policy/explain-fallback.ts";
import { nearestName } from "../../../policy/nearest-name.ts";
import type { PolicyGroup } from "../../../policy/snapshot.ts";
import { isFault } from "../../../pool/health.ts";
import type { Candidate } from "../../../pool/pool.ts";
import { FALLBACK_CONDITIONS } from "../../../records/fallback.ts";
import { CHARGES } from "../../../records/group.ts";
import { DIALECTS, type Interface } from "../../../records/interfaces.ts";
import type { KeyRecord } from "../../../records/key.ts";
import { UNITS } from "../../../records/limits.ts";
import type { PolicyRecords } from "../../../records/policy.ts";
import { effectiveStatus } from "../../../records/user.ts";
import { findUser } from "../../../store/identity/users.ts";
import { readPolicy } from "../../../store/policy/policy.ts";
import type { PolicyContext } from "../../context.ts";
import type { Actor } from "../../http/route.ts";
import { filterUsableGroups } from "../../keys/usable-groups.ts";
import { flushUsageFor } from "../../usage/flush-usage.ts";
import { computeCandidateAvailability } from "../availability.ts";
import { type Facts, factsResponse, WHY_REASONS, type WhyReason } from "./facts.ts";
import { explainPayment } from "./payment.ts";
import { describeStep } from "./text.ts";

const stepResponse = z.object({
  ok: z.boolean(),
  reason: z.enum(WHY_REASONS),
  /** The finding, and what to do about it. */
  text: z.string(),
  facts: factsResponse,
});

export const whyResponse = z.object({
  /** Whether a request would be served, immediately or after waiting in a queue. */
  allowed: z.boolean(),
  steps: z.array(stepResponse),
  /** The steps that requests may take when the first one cannot serve them, in their order. */
  fallback: z.array(
    z.object({
      step: z.number(),
      group: z.string(),
      model: z.string(),
      when: z.array(z.enum(FALLBACK_CONDITIONS)),
      charge: z.enum(CHARGES),
      /** A factor of the cost at the first step. */
      max_price: z.string().nullable(),
      leave_after_ms: z.number().nullable(),
      stay_ms: z.number().nullable(),
      /** Why requests of this key never take the step; null if they may. */
      obstacle: z.enum(FALLBACK_OBSTACLES).nullable(),
    }),
  ),
  /** Only for administrators. */
  accounts: z
    .array(
      z.object({
        name: z.string(),
        sent_as: z.string().nullable(),
        /** The interface that requests are translated into; null if the account has the interface itself. */
        translation: z.enum(DIALECTS).nullable(),
        reason: z.string().nullable(),
        frees_at: z.number().nullable(),
      }),
    )
    .nullable(),
});

interface AccessQuery {
  key: KeyRecord;
  model: string;
  interface: Interface;
}

interface Step {
  ok: boolean;
  reason: WhyReason;
  facts: Facts;
}

export async function explainKey(
  context: PolicyContext,
  actor: Actor,
  accessQuery: AccessQuery,
): Promise<z.input<typeof whyResponse>> {
  const { installation, gateway } = context;
  const { db, clock } = installation;
  const nowMs = clock.nowMs();
  const { key } = accessQuery;
  const isAdmin = actor.role === "admin";
  const records = await readPolicy(db);
  const configured = explainAccess(records, key, accessQuery.model, accessQuery.interface, nowMs);
  const user = key.userId === null ? null : await findUser(db, key.userId);
  const snapshot = gateway.policy.snapshot();
  const group = lookUpGroup(key, snapshot);
  const facts = buildFacts(accessQuery, group, user === null ? [] : filterUsableGroups(snapshot, user));
  const steps: Step[] = configured.steps.map(({ ok, reason }) => ({
    ok,
    reason: isAdmin ? reason : hideUnknownModel(reason),
    facts,
  }));
  if (user !== null && effectiveStatus(user) === "disabled")
    steps.unshift({ ok: false, reason: "owner_disabled", facts });

  const cachedKey = gateway.policy.keys.get(key.id);
  const routes = group?.models.get(accessQuery.model)?.routes.get(accessQuery.interface) ?? [];
  const candidates = routes.map((route) => gateway.dispatcher.pool.describe(route));
  if (cachedKey !== undefined && group !== undefined && candidates.length > 0) {
    const shortage = callerSubjects({ key: cachedKey, group })
      .map((subject) => gateway.limiter.checkShortage(subject, LEAST_USE))
      .find((found) => found !== null);
    const availability = computeCandidateAvailability(candidates, nowMs);
    if (key.userId !== null) await flushUsageFor(context, key.userId);
    steps.push(
      shortage === undefined
        ? { ok: true, reason: "within_limits", facts }
        : limitStep(shortage, group.queue.maxWaiting, { ...facts, ...shortageFacts(shortage, nowMs) }),
      await explainPayment(db, { group, userId: key.userId, facts, nowMs }),
      {
        ok: availability.status !== "unavailable",
        reason:
          availability.status === "unavailable" && areFailing(candidates) ? "failing" : availability.status,
        facts: availability.frees_at === null ? facts : { ...facts, frees_at: availability.frees_at },
      },
    );
  }

  const failed = steps.findIndex(({ ok }) => !ok);
  const shownSteps = failed === -1 ? steps : steps.slice(0, failed + 1);
  const states = new Map(candidates.map((candidate) => [candidate.accountName, candidate]));
  return {
    allowed: failed === -1,
    steps: shownSteps.map((step) => ({ ...step, text: describeStep(step.reason, step.facts) })),
    fallback: buildFallback(records, accessQuery),
    accounts: !isAdmin
      ? null
      : configured.accounts.map(({ name, upstreamModel, translation, reason }) => {
          const state = states.get(name);
          const freesInMs = state?.freesInMs ?? null;
          return {
            name,
            sent_as: upstreamModel,
            translation,
            reason: reason ?? state?.reason ?? null,
            frees_at: freesInMs === null ? null : Math.ceil(nowMs + freesInMs),
          };
        }),
  };
}

function buildFallback(records: PolicyRecords, { key, model, interface: iface }: AccessQuery) {
  const steps = explainFallback(records, key, model, iface);
  return steps.map(({ number, maxPrice, leaveAfterMs, stayMs, ...step }) => {
    return { ...step, step: number, max_price: maxPrice, leave_after_ms: leaveAfterMs, stay_ms: stayMs };
  });
}

/** A request over a concurrency limit waits, if its group has a queue; over any other limit it is rejected. */
function limitStep({ kind, max }: Shortage, maxWaiting: number, facts: Facts): Step {
  const waits = kind === "concurrency" && max > 0 && maxWaiting > 0;
  return { ok: waits, reason: waits ? "limit_in_use" : "limit_used_up", facts };
}

function areFailing(candidates: readonly Candidate[]): boolean {
  return candidates.some(({ cause }) => cause !== undefined && isFault(cause));
}

/** Users must not learn that a model exists which they cannot call. */
function hideUnknownModel(reason: Reason): Reason {
  return reason === "model_unknown" ? "model_not_published" : reason;
}

function buildFacts(
  { model, interface: iface }: AccessQuery,
  group: PolicyGroup | undefined,
  reachableGroups: PolicyGroup[],
): Facts {
  const published = group?.models.get(model);
  const others = reachableGroups.filter(
    (other) => other !== group && other.models.get(model)?.routes.has(iface),
  );
  const close = published === undefined ? nearestName(model, group?.models.keys() ?? []) : null;
  return {
    model,
    interface: iface,
    ...(group === undefined ? {} : { group: group.name }),
    interfaces: [...(published?.routes.keys() ?? group?.interfaces ?? [])],
    other_groups: others.map(({ name }) => name),
    ...(close === null ? {} : { nearest: close }),
  };
}

function shortageFacts({ scope, kind, unit, max, perMs, freesInMs }: Shortage, nowMs: number): Facts {
  return {
    ...(scope === "account" ? {} : { scope }),
    unit: kind === "concurrency" ? "at_once" : UNITS[unit].field,
    limit: unit === "nano" ? usdText(BigInt(max)) : String(max),
    ...(kind === "concurrency" ? {} : { per_ms: perMs ?? MINUTE_MS }),
    ...(freesInMs === null ? {} : { frees_at: Math.ceil(nowMs + freesInMs) }),
  };
}
