/** One delivery of a batch to a webhook: the request, and the position of the webhook after the response. */

import { buildFailure, postWebhook, signBody, type WebhookResponse } from "../alerts/post-webhook.ts";
import type { HttpClient } from "../net/http-client/client.ts";
import type { Dialer } from "../net/http-client/dial.ts";
import type { Clock } from "../net/wire/clock.ts";
import type { Keyring } from "../secrets/keyring.ts";
import { exportSecretBinding, SealError, unseal } from "../secrets/seal.ts";
import type { WebhookRecord } from "../settings-records.ts";
import type { ExportTarget } from "../store/usage-feed/targets.ts";
import { VERSION } from "../version.ts";
import type { UsageBatch } from "./batch.ts";
import { formatCursor, parseCursor } from "./cursor.ts";

export interface BatchSender {
  readonly dialer: Dialer;
  readonly http: HttpClient;
  readonly keyring: Keyring;
  readonly clock: Pick<Clock, "nowMs">;
  readonly timeoutMs: number;
}

export type SentBatch = Pick<UsageBatch, "body" | "rowCount" | "to">;

export async function sendBatch(
  sender: BatchSender,
  webhook: WebhookRecord,
  { feedId, deliveredTo }: Pick<ExportTarget, "feedId" | "deliveredTo">,
  { body, rowCount, to }: SentBatch,
): Promise<WebhookResponse> {
  const { url, privateNetwork } = webhook;
  let signature: Record<string, string>;
  try {
    signature = buildSignature(sender, webhook, body);
  } catch (error) {
    if (!(error instanceof SealError)) throw error;
    return buildFailure("the stored secret cannot be decrypted; enter it again");
  }
  return postWebhook(sender, {
    url,
    privateNetwork,
    contentType: "application/x-ndjson",
    headers: {
      "user-agent": `model-gateway/${VERSION}`,
      "x-gateway-delivery": `${feedId}:${deliveredTo}-${to}`,
      "x-gateway-cursor-before": formatCursor({ feedId, feedNo: deliveredTo }),
      "x-gateway-cursor": formatCursor({ feedId, feedNo: to }),
      "x-gateway-rows": String(rowCount),
      ...signature,
    },
    body,
  });
}

function buildSignature({ keyring, clock }: BatchSender, webhook: WebhookRecord, body: string) {
  const { name, sealedSecret } = webhook;
  if (sealedSecret === null) return {};
  const secret = unseal(keyring, exportSecretBinding(name), sealedSecret);
  return { "x-gateway-signature": signBody(secret, body, clock.nowMs()) };
}

export interface ResponseContext {
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
  { ok, answer, status, cursor }: WebhookResponse,
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
      answer,
      deliveredAtMs: nowMs,
    };
  }
  const pauseMs = retriesMs[Math.min(target.failures, retriesMs.length - 1)] ?? 0;
  const failed = { ...target, failures: target.failures + 1, dueAtMs: nowMs + pauseMs, answer };
  if (status === TOO_LARGE && target.sendingTo !== null && middle < target.sendingTo)
    return { ...failed, sendingTo: middle };
  const wanted = status === CONFLICT ? readWantedPosition(target, cursor, context) : null;
  if (wanted === null) return failed;
  return { ...failed, deliveredTo: wanted, sendingTo: null, answer: `${answer}, resumed at its cursor` };
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
