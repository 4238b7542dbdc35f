/** Records the end of a request for operators: counters, metrics, spans and the access log. */

import { usdText } from "../../money/nano.ts";
import type { AccessLog } from "../../observe/access-log.ts";
import type { RequestCounts } from "../../observe/request-counts.ts";
import type { RequestMetrics } from "../../observe/request-metrics.ts";
import { countTraffic, hasFailed, type Traffic } from "../../observe/traffic.ts";
import type { UsageRow } from "../../store/usage/usage-row.ts";
import type { Tracer } from "../../telemetry/tracer.ts";
import { traceLogId } from "../request/log-ids.ts";
import type { AuthenticatedRequest } from "../request-context.ts";
import type { RequestEnding } from "./request-ending.ts";
import { exportSpans } from "./request-spans.ts";

export interface RecordingServices {
  readonly traffic: Traffic;
  readonly requestCounts: RequestCounts;
  readonly requestMetrics: RequestMetrics;
  /** Null if spans are not exported. */
  readonly tracer: Tracer | null;
  /** Null if it is off. */
  readonly accessLog: AccessLog | null;
}

export function recordRequest(
  { traffic, requestCounts, requestMetrics, tracer, accessLog }: RecordingServices,
  context: AuthenticatedRequest,
  { row, ending }: { readonly row: UsageRow; readonly ending: RequestEnding },
): void {
  const { model, caller, trace, call } = context;
  context.settledCostNano = row.costNano;
  const isExported =
    tracer !== null && exportSpans(tracer, context, { row, describeResponse: ending.describeResponse });
  const traceReference =
    isExported && trace.spanContext !== null ? { traceId: trace.spanContext.traceId, atMs: row.atMs } : null;
  countTraffic(traffic, row);
  requestCounts.add(row, model !== null, traceReference);
  requestMetrics.add({
    model: model === null ? "" : row.publicModel,
    group: caller.group.name,
    durationMs: row.durationMs,
    waitMs: row.waitMs,
    firstContentMs: trace.firstContentMs,
    outputTokens: row.outputTokens,
    limit: ending.error?.limit ?? null,
    attempts: trace.attempts,
    isSocketTurn: call.socketTurn !== null,
    traceReference,
    // A failed request has restored its first step, or was rejected at this one.
    fallback: row.status < 400 ? (context.fallback?.describeMove() ?? null) : null,
  });
  context.capture?.settle(row);
  if (accessLog?.isWanted(hasFailed(row))) writeAccess(accessLog, context, row);
}

function writeAccess(accessLog: AccessLog, context: AuthenticatedRequest, row: UsageRow): void {
  const { call, caller, model, trace } = context;
  const { headers } = call.request;
  accessLog.add({
    time: new Date(row.atMs).toISOString(),
    event: "request",
    request_id: row.requestId,
    ...traceLogId(trace),
    key: caller.key.publicId,
    user_id: row.userId,
    group: caller.group.name,
    endpoint: row.endpoint,
    model: model === null ? null : row.publicModel,
    upstream_model: row.upstreamModel,
    account: trace.route?.account.name ?? null,
    stream: row.stream,
    status: row.status,
    code: row.errorCode,
    outcome: row.outcome,
    attempts: row.attempts,
    wait_ms: row.waitMs,
    first_byte_ms: row.firstByteMs,
    first_content_ms: trace.firstContentMs,
    duration_ms: row.durationMs,
    input_tokens: row.inputTokens,
    cached_tokens: row.cachedTokens,
    cache_write_tokens: row.cacheWriteTokens,
    output_tokens: row.outputTokens,
    reasoning_tokens: row.reasoningTokens,
    images: row.images,
    cost_usd: usdText(row.costNano),
    charged_usd: usdText(row.chargedNano),
    request_bytes: call.bodyBytes,
    client: headers.get("user-agent"),
  });
}
