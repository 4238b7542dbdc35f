/** The details of one request: timeline, usage, price calculation and the reason of a rejection. */

import { z } from "zod";
import { buildCostLines, formatPrice, PRICED_PER } from "../../gateway/endpoints/request-report.ts";
import type { DispatchTrace } from "../../gateway/request/trace.ts";
import { usdText } from "../../money/nano.ts";
import { buildTariff, COST_UNITS, multiplierText, type Tariff } from "../../money/tariff.ts";
import type { Snapshot } from "../../policy/snapshot.ts";
import { RULES } from "../../records/request-policy.ts";
import { hasCapture } from "../../store/captures/captures.ts";
import type { Db } from "../../store/engine/db.ts";
import { readTerms } from "../../store/money/tariffs.ts";
import { lookUpNames } from "../../store/reports/names.ts";
import { USAGE_FLAGS, USAGE_PAYERS, USAGE_SOURCES, type UsageRow } from "../../store/usage/usage-row.ts";
import type { Tracer } from "../../telemetry/tracer.ts";
import { type Actor, seesEverything } from "../http/route.ts";
import { type Attempt, buildTimeline, readAttempts, readTrace } from "./timeline.ts";
import { requestObjects, requestResponse } from "./usage-rows.ts";

const stepResponse = z.object({
  kind: z.enum(["checks", "wait", "attempt", "response"]),
  /** Since the request arrived. */
  from_ms: z.number(),
  to_ms: z.number(),
  /** Only for an attempt. */
  number: z.number().nullable(),
  status: z.number().nullable(),
  failure: z.string().nullable(),
  /** For administrators: the account, its model name and its error. */
  account: z.string().nullable().optional(),
  upstream_model: z.string().nullable().optional(),
  reason: z.string().nullable().optional(),
});

const fallbackStepResponse = z.object({
  /** 0: the requested model in the key's group. */
  step: z.number(),
  group: z.string(),
  model: z.string(),
  /** When the step ended, was skipped or began to serve: since the request arrived. */
  at_ms: z.number(),
  result: z.enum(["served", "failed", "skipped"]),
  reason: z.string().nullable(),
  /** USD; null if it was not computed. */
  expected_cost: z.string().nullable(),
});

export const inspectionResponse = requestResponse.extend({
  started_at: z.number(),
  /** The error message that the client received, if the request was rejected or failed. */
  rejection: z.string().nullable(),
  /** What the request policy of the key changed; empty if nothing. */
  policy_changes: z.array(
    z.object({
      rule: z.enum(RULES),
      param: z.string(),
      from: z.string().nullable(),
      to: z.string().nullable(),
    }),
  ),
  response_id: z.string().nullable(),
  usage_source: z.enum(USAGE_SOURCES),
  steps: z.array(stepResponse),
  /** What a request asked for that another step than the first served; null for every other request. */
  fallback: z
    .object({
      requested_group: z.string().nullable(),
      requested_model: z.string().nullable(),
      step: z.number(),
      /** Why the request left the step before. */
      reason: z.string().nullable(),
    })
    .nullable(),
  /** The steps of a request that has left its first one, in their order. */
  fallback_steps: z.array(fallbackStepResponse),
  payer: z.enum(USAGE_PAYERS).nullable(),
  flags: z.array(z.enum(USAGE_FLAGS)),
  /** Null if there is no price, if the token counts were not plausible, or if the prices of an unpaid request changed. */
  calculation: z
    .object({
      multiplier: z.string(),
      lines: z.array(
        z.object({
          unit: z.enum(COST_UNITS),
          count: z.number(),
          price: z.string(),
          per: z.enum(PRICED_PER),
          long_context: z.boolean(),
          cost: z.string(),
        }),
      ),
    })
    .nullable(),
  /** The following fields are for administrators. */
  upstream_request_id: z.string().nullable().optional(),
  /** The distributed trace of the request; null if traces are not exported. */
  trace_id: z.string().nullable().optional(),
  /** The page of the trace in the operator's tool; null if none is configured. */
  trace_url: z.string().nullable().optional(),
  /** The request was captured: `POST /api/admin/captures/{id}/read` reads it. */
  is_captured: z.boolean().optional(),
  /** The accounts that were considered at the last selection. */
  candidates: z
    .array(
      z.object({
        account: z.string(),
        upstream_model: z.string(),
        priority: z.number(),
        score: z.number().nullable(),
        /** Why the account could not be selected; null if it could. */
        reason: z.string().nullable(),
      }),
    )
    .optional(),
});

interface InspectionServices {
  readonly db: Db;
  readonly tracer: Tracer | null;
  readonly policy: Pick<Snapshot, "groups">;
}

export async function inspect(
  { db, tracer, policy }: InspectionServices,
  actor: Actor,
  row: UsageRow,
): Promise<z.input<typeof inspectionResponse>> {
  const hasAllFields = seesEverything(actor);
  const [listed] = await requestObjects(db, actor, [row]);
  if (listed === undefined) throw new Error("The usage row was not converted to a request.");
  const trace = readTrace(row);
  return {
    ...listed,
    started_at: row.atMs - row.durationMs,
    rejection: trace?.rejection ?? null,
    policy_changes: [...(trace?.policyChanges ?? [])],
    response_id: row.responseId,
    usage_source: row.usageSource,
    steps: stepObjects(row, trace, hasAllFields ? (listed.account ?? null) : undefined),
    fallback: await buildFallback(db, row),
    fallback_steps: (trace?.steps ?? []).map(({ number, atMs, forecast, ...step }) => ({
      ...step,
      step: number,
      at_ms: atMs,
      expected_cost: forecast,
    })),
    payer: row.payer,
    flags: [...row.flags],
    calculation: await buildCalculation({ db, policy }, row),
    ...(hasAllFields
      ? {
          upstream_request_id: row.upstreamRequestId,
          ...findTrace(tracer, row, trace),
          // Auditors open no captures, so they need no link to one.
          ...(actor.role === "admin" ? { is_captured: await hasCapture(db, row.requestId) } : {}),
          candidates: buildCandidates(trace),
        }
      : {}),
  };
}

async function buildFallback(
  db: Db,
  { requestedGroup, requestedModel, fallbackStep, fallbackReason }: UsageRow,
): Promise<z.input<typeof inspectionResponse>["fallback"]> {
  if (fallbackStep === null) return null;
  const names = await lookUpNames(db, "group", [requestedGroup]);
  return {
    requested_group: requestedGroup === null ? null : (names.get(requestedGroup) ?? null),
    requested_model: requestedModel,
    step: fallbackStep,
    reason: fallbackReason,
  };
}

function findTrace(tracer: Tracer | null, row: UsageRow, trace: DispatchTrace | null) {
  const stored = trace?.traceId ?? null;
  const traceId = tracer === null ? stored : tracer.traceId(row.requestId, stored);
  const traceUrl = tracer === null || traceId === null ? null : tracer.traceUrl(traceId);
  return { trace_id: traceId, trace_url: traceUrl };
}

/** `account` is undefined for callers who may not see accounts. */
function stepObjects(
  row: UsageRow,
  trace: DispatchTrace | null,
  account: string | null | undefined,
): z.input<typeof stepResponse>[] {
  const attempts = readAttempts(row, trace);
  return buildTimeline(row, attempts).map((step) => {
    const attempt = step.kind === "attempt" ? attempts[step.number - 1] : undefined;
    return {
      kind: step.kind,
      from_ms: step.fromMs,
      to_ms: step.toMs,
      number: attempt?.number ?? null,
      status: attempt?.status ?? null,
      failure: attempt?.failure ?? null,
      ...(account === undefined ? {} : administratorFields(attempt, account)),
    };
  });
}

function administratorFields(attempt: Attempt | undefined, account: string | null) {
  return {
    account: attempt === undefined ? null : (attempt.accountName ?? account),
    upstream_model: attempt?.upstreamModel ?? null,
    reason: attempt?.reason ?? null,
  };
}

async function buildCalculation(
  services: Omit<InspectionServices, "tracer">,
  row: UsageRow,
): Promise<z.input<typeof inspectionResponse>["calculation"]> {
  const tariff = await findTariff(services, row);
  if (tariff === null) return null;
  const lines = buildCostLines(tariff, row);
  if (lines === null) return null;
  return {
    multiplier: multiplierText(tariff),
    lines: lines.map(({ unit, count, picoEach, longContext, nano }) => ({
      unit,
      count,
      ...formatPrice(unit, picoEach),
      long_context: longContext,
      cost: usdText(nano),
    })),
  };
}

/**
 * The prices of a request that was not charged are not stored. Those of today are the same if they give its cost, which
 * `buildCostLines` checks.
 */
async function findTariff(
  { db, policy }: Omit<InspectionServices, "tracer">,
  row: UsageRow,
): Promise<Tariff | null> {
  if (row.tariffId === null) {
    const model = policy.groups.get(row.groupId)?.models.get(row.publicModel);
    return row.costNano === 0n ? null : (model?.tariff ?? null);
  }
  const terms = await readTerms(db, row.tariffId);
  return terms === null ? null : buildTariff(terms);
}

function buildCandidates(trace: DispatchTrace | null) {
  return (trace?.candidates ?? []).map(({ accountName, upstreamModel, priority, score, reason }) => ({
    account: accountName,
    upstream_model: upstreamModel,
    priority,
    score,
    reason,
  }));
}
