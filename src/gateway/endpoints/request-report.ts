/** `GET /v1/requests/{id}`: the outcome of one request, for the key that made it. Accounts are not named. */

import type { BillingEngine } from "../../billing/engine/billing-engine.ts";
import { ApiError, storeUnavailable } from "../../errors.ts";
import { usdText } from "../../money/nano.ts";
import {
  buildTariff,
  type CostLine,
  type CostUnit,
  computeTariffCost,
  costLines,
  multiplierText,
  type Tariff,
} from "../../money/tariff.ts";
import type { Db } from "../../store/engine/db.ts";
import { readTerms } from "../../store/money/tariffs.ts";
import { findUsage, type UsageRow } from "../../store/usage/usage.ts";
import type { Caller } from "../admission/authenticate.ts";
import type { DispatchTrace } from "../request/trace.ts";
import type { ResponseRoutes } from "../stored-responses/response-routes.ts";

interface RequestReportServices {
  readonly db: Db;
  readonly billingEngine: Pick<BillingEngine, "flush">;
  readonly responses: Pick<ResponseRoutes, "find">;
}

/** Looks up a request by its id or by the id of its response: the client of a WebSocket turn knows only the latter. */
export async function reportRequest(
  { db, billingEngine, responses }: RequestReportServices,
  caller: Caller,
  id: string,
): Promise<unknown> {
  await billingEngine.flush().catch(() => {
    throw storeUnavailable();
  });
  const storedResponse = id.startsWith("req_") ? null : await responses.find(id, caller.key.id);
  const row = await findUsage(db, storedResponse?.requestId ?? id);
  if (row === null || row.keyId !== caller.key.id) {
    throw new ApiError(
      "request_not_found",
      `No request '${id.slice(0, 64)}' of this key exists. Use the x-request-id of a response, or the id of a stored response. If many requests of a key are rejected within one minute, only the first ones have a separate record.`,
    );
  }
  return {
    object: "gateway.request",
    id: row.requestId,
    request_count: row.requestCount,
    created_at: Math.floor((row.atMs - row.durationMs) / 1000),
    completed_at: Math.floor(row.atMs / 1000),
    endpoint: row.endpoint,
    model: row.publicModel,
    stream: row.stream,
    status: row.status,
    outcome: row.outcome,
    error_code: row.errorCode,
    usage: {
      input_tokens: row.inputTokens,
      cached_tokens: row.cachedTokens,
      cache_write_tokens: row.cacheWriteTokens,
      cache_write_1h_tokens: row.cacheWrite1hTokens,
      image_input_tokens: row.imageInputTokens,
      audio_input_tokens: row.audioInputTokens,
      output_tokens: row.outputTokens,
      reasoning_tokens: row.reasoningTokens,
      audio_output_tokens: row.audioOutputTokens,
      images: row.images,
      web_searches: row.webSearches,
      source: row.usageSource,
    },
    money: await describeMoney(db, row),
    timing: { waited_ms: row.waitMs, first_byte_ms: row.firstByteMs, duration_ms: row.durationMs },
    attempts: describeAttempts(row),
  };
}

/** The cost and its calculation, with the multiplier. The cost of failed attempts is not shown to callers. */
async function describeMoney(db: Db, row: UsageRow): Promise<unknown> {
  const terms = row.tariffId === null ? null : await readTerms(db, row.tariffId);
  return {
    currency: "USD",
    cost: usdText(row.costNano),
    charged: usdText(row.chargedNano),
    payer: row.payer,
    flags: row.flags,
    calculation: terms === null ? null : describeCalculation(buildTariff(terms), row),
  };
}

function describeCalculation(tariff: Tariff, row: UsageRow): unknown {
  const lines = buildCostLines(tariff, row);
  return lines === null ? null : { multiplier: multiplierText(tariff), lines: lines.map(lineObject) };
}

/** Returns null if the counts do not add up to the cost: they were implausible, or nothing was served. */
export function buildCostLines(tariff: Tariff, row: UsageRow): CostLine[] | null {
  // The image kind and the service tier are not stored: they are those whose price matches the cost.
  const kinds = row.images === 0 ? [null] : [null, ...tariff.prices.images.keys()];
  const tiers = [null, ...tariff.prices.tiers.keys()];
  const terms = tiers
    .flatMap((tier) => kinds.map((imageKind) => ({ imageKind, tier })))
    .find((one) => computeTariffCost(tariff, { ...row, ...one }) === row.costNano);
  return terms === undefined ? null : costLines(tariff, { ...row, ...terms });
}

function lineObject({ unit, count, picoEach, longContext, nano }: CostLine): unknown {
  return { unit, count, ...formatPrice(unit, picoEach), long_context: longContext, cost: usdText(nano) };
}

/** What a price is for: as in price lists, per million tokens. */
export const PRICED_PER = ["1M tokens", "image", "web_search", "request"] as const;

export function formatPrice(
  unit: CostUnit,
  picoEach: bigint,
): { price: string; per: (typeof PRICED_PER)[number] } {
  return unit === "image" || unit === "request" || unit === "web_search"
    ? { price: usdText(picoEach / 1_000n), per: unit }
    : { price: usdText(picoEach * 1_000n), per: "1M tokens" };
}

/** The attempts without their accounts. */
function describeAttempts(row: UsageRow): unknown[] {
  // A single successful attempt has no stored trace.
  const untranslated = { translated_to: null, dropped: [], state_dropped: false };
  const served = {
    number: 1,
    started_ms: 0,
    first_byte_ms: row.firstByteMs,
    status: 200,
    failure: null,
    ...untranslated,
  };
  if (row.trace === null) return row.attempts === 0 ? [] : [served];
  const { attempts }: DispatchTrace = JSON.parse(row.trace);
  return attempts.map((attempt, i) => ({
    number: i + 1,
    started_ms: attempt.startedMs,
    first_byte_ms: attempt.firstByteMs,
    status: attempt.status,
    failure: attempt.failure,
    translated_to: attempt.translation ?? null,
    dropped: attempt.dropped ?? [],
    state_dropped: attempt.stateDropped === true,
  }));
}
