/** One delivery of a batch to a webhook: the request, and the position of the webhook after the response. */

import type { WebhookResponse } from "../alerts/post-webhook.ts";
import { sendSigned, type WebhookSender } from "../alerts/signed-webhook.ts";
import type { WebhookRecord } from "../records/settings.ts";
import type { ExportTarget } from "../store/usage-feed/targets.ts";
import type { UsageBatch } from "./batch.ts";
import { formatCursor, parseCursor } from "./cursor.ts";

type SentBatch = Pick<UsageBatch, "body" | "rowCount" | "to">;

export function sendBatch(
  sender: WebhookSender,
  webhook: WebhookRecord,
  { feedId, deliveredTo }: Pick<ExportTarget, "feedId" | "deliveredTo">,
  { body, rowCount, to }: SentBatch,
): Promise<WebhookResponse> {
  return sendSigned(sender, "usage_export", webhook, {
    contentType: "application/x-ndjson",
    headers: {
      "x-gateway-delivery": `${feedId}:${deliveredTo}-${to}`,
      "x-gateway-cursor-before": formatCursor({ feedId, feedNo: deliveredTo }),
      "x-gateway-cursor": formatCursor({ feedId, feedNo: to }),
      "x-gateway-rows": String(rowCount),
    },
    body,
  });
}

interface ResponseContext {
  readonly nowMs: number;
  readonly retriesMs: readonly number[];
  /** The range in which a receiver may choose its position. */
  readonly removedTo: number;
  readonly horizon: number;
  /** The entry at which a batch is cut that is too large for the receiver. */
  readonly middle: number;
}

/** The position of the webhook after a response. */
export function applyResponse(
  target: ExportTarget,
  { ok, response, status, cursor }: WebhookResponse,
  context: ResponseContext,
): ExportTarget {
  const { nowMs, retriesMs, middle } = context;
  if (ok) {
    const deliveredTo = target.sendingTo ?? target.deliveredTo;
    return {
      ...target,
      deliveredTo,
      sendingTo: null,
      failures: 0,
      dueAtMs: nowMs,
      response,
      deliveredAtMs: nowMs,
    };
  }
  const pauseMs = retriesMs[Math.min(target.failures, retriesMs.length - 1)] ?? 0;
  const failed = { ...target, failures: target.failures + 1, dueAtMs: nowMs + pauseMs, response };
  if (status === TOO_LARGE && target.sendingTo !== null && middle < target.sendingTo)
    return { ...failed, sendingTo: middle };
  const wanted = status === CONFLICT ? readWantedPosition(target, cursor, context) : null;
  if (wanted === null) return failed;
  return { ...failed, deliveredTo: wanted, sendingTo: null, response: `${response}, resumed at its cursor` };
}

const CONFLICT = 409;
const TOO_LARGE = 413;

/** The position that a receiver requests, for example after it was restored from a backup. Null if it is not possible. */
function readWantedPosition(
  { feedId, deliveredTo }: ExportTarget,
  cursor: string | null,
  { removedTo, horizon }: ResponseContext,
): number | null {
  const wanted = cursor === null ? null : parseCursor(cursor);
  if (wanted === null || wanted.feedId !== feedId || wanted.feedNo === deliveredTo) return null;
  return wanted.feedNo >= removedTo && wanted.feedNo <= horizon ? wanted.feedNo : null;
}
