/**
 * Settles a paid response that continued upstream by its hold, when the process that has its request is gone or
 * elsewhere: the usage that the upstream reports is charged at the tariff of the hold.
 */

import type { Clock } from "../../base/clock.ts";
import type { BillingEngine } from "../../billing/engine/billing-engine.ts";
import { errorReason, withBillingErrors } from "../../billing/engine/store-faults.ts";
import {
  buildHeldSettlement,
  chargeWholeHold,
  estimateHeldUse,
  type HeldUse,
} from "../../billing/recovery/held-settlement.ts";
import type { CountLateUse } from "../../limits/late-use.ts";
import { buildTariff, computeTariffCosts, type Tariff } from "../../money/tariff.ts";
import { NO_TOKENS } from "../../money/token-counts.ts";
import type { Log } from "../../observe/log.ts";
import type { LivePolicy } from "../../policy/live-policy.ts";
import type { ModelWindow } from "../../protocols/shared/usage.ts";
import type { EndedResponse } from "../../protocols/whole-response.ts";
import type { Db } from "../../store/engine/db.ts";
import type { HeldResponse } from "../../store/money/holds.ts";
import { readTerms } from "../../store/money/tariffs.ts";
import { storableCost } from "../../store/usage/storable-values.ts";
import type { InputCounter } from "../metering/count-input.ts";
import { asBounded, type MeasuredUsage, reportsAll } from "../metering/meter.ts";
import type { ReasoningEstimates } from "../metering/reasoning-estimate.ts";
import { boundLateReport } from "../metering/usage-bounds.ts";
import { cutToHold, isFarAboveHold, type MoneyServices } from "../settlement/compute-money.ts";
import { addUnseenReasoning } from "../settlement/unseen-output.ts";
import { isStopped } from "./background-response.ts";
import { readEffort, readSearchLimit } from "./repeated-settings.ts";

export interface HeldSettlementServices extends Pick<MoneyServices, "billingFaults"> {
  readonly db: Db;
  readonly clock: Clock;
  readonly log: Pick<Log, "info" | "warn" | "error">;
  readonly policy: Pick<LivePolicy, "snapshot">;
  readonly reasoning: ReasoningEstimates;
  readonly inputCounter: Pick<InputCounter, "countResponse">;
  readonly billingEngine: Pick<BillingEngine, "book">;
  readonly countLateUse: CountLateUse;
}

type HeldResponseEnd =
  | ({ kind: "ended" } & EndedResponse)
  /** Its upstream has deleted or lost it, so no client can retrieve it: what is known is charged. */
  | { kind: "gone" }
  /** Its upstream did not report its end in time. */
  | { kind: "unknown" };

/** Resolves when the database has the settlement. A response that another process has settled stays as it is. */
export async function settleHeldResponse(
  services: HeldSettlementServices,
  held: HeldResponse,
  end: HeldResponseEnd,
): Promise<void> {
  const { db, clock, log, billingEngine } = services;
  const terms = await withBillingErrors(readTerms(db, held.tariffId));
  if (terms === null) log.error("tariff_missing", { request_id: held.requestId, tariff: held.tariffId });
  const use = await computeUse(services, held, { end, terms });
  await billingEngine.book(buildHeldSettlement(held, use, clock.nowMs()));
  if (held.isAdopted) await countInWindows(services, held, use);
  log.info("held_response_settled", {
    request_id: held.requestId,
    outcome: use.outcome,
    charged_nano: use.chargedNano.toString(),
  });
}

/**
 * The process that served the request has ended; otherwise that one reports the use. The settlement stands, whatever
 * happens here: it must not be repeated.
 */
async function countInWindows(
  { countLateUse, log }: HeldSettlementServices,
  { requestId, keyId, userId, groupId }: HeldResponse,
  { tokens, costs }: HeldUse,
): Promise<void> {
  const use = { tokens: tokens.inputTokens + tokens.outputTokens, nano: Number(costs.costNano) };
  await countLateUse({ keyId, userId, groupId, ...use }).catch((error: unknown) =>
    log.warn("late_use_not_counted", { request_id: requestId, reason: errorReason(error) }),
  );
}

async function computeUse(
  services: HeldSettlementServices,
  held: HeldResponse,
  { end, terms }: { readonly end: HeldResponseEnd; readonly terms: string | null },
): Promise<HeldUse> {
  if (end.kind === "gone") return estimateHeldUse(held, terms);
  if (end.kind === "unknown" || terms === null) return chargeWholeHold(held);
  const tariff = buildTariff(terms);
  const measured = await measureHeld(services, held, { end, tariff });
  const heldNano = held.amountNano;
  const priced = measured.isImplausible
    ? { costNano: heldNano, listNano: heldNano }
    : computeTariffCosts(tariff, measured.tokens, {
        imageKind: null,
        tier: end.response.usage?.tier ?? null,
      });
  const ids = { request_id: held.requestId, account_id: held.accountId };
  const isCut = isFarAboveHold(priced, heldNano);
  const costs = isCut ? cutToHold(services, { heldNano, ids }, priced) : priced;
  const isOverrun = costs.costNano > heldNano;
  const flags = isCut ? ([...measured.flags, "clamped"] as const) : measured.flags;
  return {
    status: 200,
    outcome: end.outcome,
    usageSource: measured.source,
    responseId: held.responseId,
    flags: isOverrun ? [...flags, "overrun"] : flags,
    tokens: measured.tokens,
    costs,
    chargedNano: isOverrun ? storableCost(costs.costNano, heldNano) : costs.costNano,
  };
}

/** The reported usage. If it is missing, the output is counted, and the input is the estimate of the hold. */
async function measureHeld(
  { policy, reasoning, inputCounter }: HeldSettlementServices,
  held: HeldResponse,
  { end, tariff }: { readonly end: EndedResponse; readonly tariff: Tariff },
): Promise<MeasuredUsage> {
  const { outcome, response } = end;
  const group = policy.snapshot().groups.get(held.groupId);
  const model = group?.models.get(held.publicModel) ?? NO_WINDOW;
  const report =
    response.usage === null
      ? null
      : boundLateReport(
          response.usage,
          model,
          (response.usage.webSearches === 0 ? null : readSearchLimit(response.body)) ?? group?.webSearchesMax,
        );
  if (report !== null && (report.verdict === "implausible" || reportsAll(report.usage, 0)))
    return asBounded(report);
  const counted = await inputCounter.countResponse(response.body, held.keyId);
  const how = isStopped(outcome, response) ? "partial" : "estimated";
  const measured: MeasuredUsage = {
    tokens: { ...NO_TOKENS, ...counted, inputTokens: report?.usage?.inputTokens || held.inputTokens },
    source: how,
    flags: [how],
    isImplausible: false,
  };
  if (how !== "partial") return measured;
  const { upstreamModel, stream, amountNano: heldNano } = held;
  const effort = readEffort(response.body);
  const subject = { upstreamModel: upstreamModel ?? held.publicModel, effort, stream };
  const stopped = { subject, choices: 1, tariff, heldNano, outputTokens: Number.POSITIVE_INFINITY };
  return addUnseenReasoning(reasoning, stopped, measured);
}

const NO_WINDOW: ModelWindow = { contextTokens: null, outputTokensMax: null };
