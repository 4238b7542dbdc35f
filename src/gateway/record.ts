/** The record of one request: gathered at each stop, written once at the end, whatever the end was. */

import type { Clock } from "../clock.ts";
import type { ApiError } from "../errors.ts";
import type { Endpoint, ModelRequest } from "../interfaces/request.ts";
import type { TokenUsage } from "../interfaces/usage.ts";
import type { UsageRow } from "../store/usage.ts";
import type { Caller } from "./authenticate.ts";
import type { Call } from "./gateway.ts";
import type { UsageWriter } from "./settle.ts";
import { firstByteMs, isOrdinary, openTrace, type Trace, traceRecord, waitedMs } from "./trace.ts";

export interface Ending {
  outcome: UsageRow["outcome"];
  status: number;
  error: ApiError | null;
  usage: TokenUsage | null;
  images: number;
  responseId: string | null;
}

export interface CallRecord {
  caller: Caller | null;
  request: Pick<ModelRequest, "publicModel" | "stream"> | null;
  readonly trace: Trace;
  /** The first call counts, later ones do nothing: a stream can end in several ways at once. */
  close(ending: Ending): void;
}

export function openRecord(clock: Clock, call: Call, endpoint: Endpoint, writer: UsageWriter): CallRecord {
  let closed = false;
  const record: CallRecord = {
    caller: null,
    request: null,
    trace: openTrace(call.startedMs),
    close(ending) {
      if (closed) return;
      closed = true;
      const { caller, request, trace } = record;
      // Whoever has no key has no record either: it could be filled by anyone.
      if (caller === null) return;
      const { usage } = ending;
      const nowMs = clock.monotonicMs();
      writer.push({
        requestId: call.requestId,
        atMs: clock.nowMs(),
        keyId: caller.key.id,
        userId: caller.key.userId,
        groupId: caller.group.id,
        accountId: trace.route?.account.id ?? null,
        interface: endpoint.interface,
        endpoint: endpoint.name,
        publicModel: request?.publicModel ?? "",
        upstreamModel: trace.route?.upstreamModel ?? null,
        stream: request?.stream ?? false,
        status: ending.status,
        outcome: ending.outcome,
        errorCode: ending.error?.code ?? null,
        inputTokens: usage?.inputTokens ?? 0,
        cachedTokens: usage?.cachedTokens ?? 0,
        cacheWriteTokens: usage?.cacheWriteTokens ?? 0,
        outputTokens: usage?.outputTokens ?? 0,
        reasoningTokens: usage?.reasoningTokens ?? 0,
        images: ending.images,
        usageSource: usage === null ? "none" : "upstream",
        attempts: trace.attempts.length,
        firstByteMs: firstByteMs(trace),
        waitMs: waitedMs(trace, nowMs),
        trace: isOrdinary(trace, nowMs) ? null : JSON.stringify(traceRecord(trace, nowMs)),
        durationMs: Math.round(nowMs - call.startedMs),
        responseId: ending.responseId,
        upstreamRequestId: trace.upstreamRequestId,
      });
    },
  };
  return record;
}
