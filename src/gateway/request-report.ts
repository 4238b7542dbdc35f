/** `GET /v1/requests/{id}`: what became of one request, for the key that made it. Accounts are not named here. */

import { ApiError, storeUnavailable } from "../errors.ts";
import { findUsage, type UsageRow } from "../store/usage.ts";
import type { Caller } from "./authenticate.ts";
import type { Gateway } from "./gateway.ts";
import type { DispatchTrace } from "./trace.ts";

export async function reportRequest(gateway: Gateway, caller: Caller, requestId: string): Promise<unknown> {
  await gateway.usage.flush().catch(() => {
    throw storeUnavailable();
  });
  const row = await findUsage(gateway.db, requestId);
  if (row === null || row.keyId !== caller.key.id) {
    throw new ApiError(
      "request_not_found",
      `No request '${requestId.slice(0, 64)}' was made with this key. Use the x-request-id of an answer.`,
    );
  }
  return {
    object: "gateway.request",
    id: row.requestId,
    created_at: Math.floor(row.atMs / 1000),
    endpoint: row.endpoint,
    model: row.publicModel,
    stream: row.stream,
    status: row.status,
    outcome: row.outcome,
    error_code: row.errorCode,
    usage: {
      input_tokens: row.inputTokens,
      cached_tokens: row.cachedTokens,
      output_tokens: row.outputTokens,
      reasoning_tokens: row.reasoningTokens,
      images: row.images,
      source: row.usageSource,
    },
    timing: { waited_ms: row.waitMs, first_byte_ms: row.firstByteMs, duration_ms: row.durationMs },
    attempts: attemptsOf(row),
  };
}

/** Which account it was stays inside; how it went may be known. */
function attemptsOf(row: UsageRow): unknown[] {
  // Nothing but one attempt that went well is not worth a trace of its own.
  const served = { number: 1, started_ms: 0, first_byte_ms: row.firstByteMs, status: 200, failure: null };
  if (row.trace === null) return row.attempts === 0 ? [] : [served];
  const { attempts }: DispatchTrace = JSON.parse(row.trace);
  return attempts.map((attempt, i) => ({
    number: i + 1,
    started_ms: attempt.startedMs,
    first_byte_ms: attempt.firstByteMs,
    status: attempt.status,
    failure: attempt.failure,
  }));
}
