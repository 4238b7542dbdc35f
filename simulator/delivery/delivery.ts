/** Delivers the responses of the simulator with their pace and faults, and records them in the ledger. */

import { gzipSync } from "node:zlib";
import type { Clock } from "../../src/base/clock.ts";
import { BEDROCK_FRAMES } from "../cloud/bedrock-frames.ts";
import { toBedrockRejection } from "../cloud/cloud-errors.ts";
import type { Rejection } from "../errors.ts";
import { SERVER_EVENTS } from "../framing.ts";
import { toGoogleRejection } from "../gemini/google-rejection.ts";
import type { Ledger, LedgerEntry } from "../ledger.ts";
import { asMessagesRejection } from "../messages/messages-errors.ts";
import type { Behaviour, Fault } from "../model/model-name.ts";
import type { TokenRule } from "../model/tokens.ts";
import { type EventsReply, type JsonReply, producedTokens, type Reply } from "../reply.ts";
import { bodyStream } from "./body-stream.ts";
import { canaryHeaders, earlyFault } from "./faults.ts";
import { BODY_FAULTS, bodyOps, eventOps, type WireOp } from "./wire.ts";

export type SimulatedApi = "openai" | "messages" | "gemini" | "bedrock";

export interface Delivery {
  request: Request;
  /** The API in whose form rejections, headers and events are written. */
  api: SimulatedApi;
  /** Null for calls without a model. */
  behaviour: Behaviour | null;
  fault: Fault | null;
  entry: LedgerEntry;
  ledger: Ledger;
  tokens: TokenRule;
  requestId: string;
  clock: Clock;
}

export const SLOW_HEADERS_MS = 5_000;

/** Applies the pace and faults to a response and records the outcome. */
export function deliver(delivery: Delivery, buildReply: () => Reply): Response | Promise<Response> {
  const { fault, behaviour } = delivery;
  // Most responses are complete at once and need no promise.
  if (fault === null && (behaviour === null || behaviour.firstMs === 0))
    return respond(delivery, buildReply());
  return deliverLate(delivery, buildReply);
}

async function deliverLate(delivery: Delivery, buildReply: () => Reply): Promise<Response> {
  const { fault, entry, request } = delivery;
  const delayMs =
    fault?.name === "slow-headers"
      ? (fault.durationMs ?? SLOW_HEADERS_MS)
      : (delivery.behaviour?.firstMs ?? 0);
  if (delayMs > 0 && !(await waitFor(delayMs, request.signal))) return closeAborted(delivery);

  if (fault !== null) {
    const credential = readCredential(request.headers) ?? "";
    const early = earlyFault(fault, { streams: entry.stream, nowMs: entry.at, credential });
    if (early === "never") {
      await waitFor(null, request.signal);
      return closeAborted(delivery);
    }
    if (early === "reset") return respondStream(delivery, [{ kind: "reset" }], {});
    if (early !== null) return respondRejection(delivery, early);
  }
  return respond(delivery, buildReply());
}

function respond(delivery: Delivery, reply: Reply): Response {
  if (reply.kind === "rejection") return respondRejection(delivery, reply);
  delivery.entry.inputTokens = reply.usage.input;
  delivery.entry.cachedTokens = reply.usage.cached;
  return reply.kind === "json" ? respondWhole(delivery, reply) : respondEvents(delivery, reply);
}

/** The caller's credential, from the header of any of the APIs. */
export function readCredential(headers: Headers): string | null {
  const authorization = headers.get("authorization");
  if (authorization !== null) return authorization.replace(/^bearer\s+/i, "");
  return headers.get("x-api-key") ?? headers.get("api-key") ?? headers.get("x-goog-api-key");
}

/** Whether the path belongs to Anthropic's API, which has its own form of errors and headers. */
export function isMessages(path: string): boolean {
  return path.startsWith("/v1/messages");
}

/** The same error as each API reports it. */
export const REJECTIONS: Readonly<Record<SimulatedApi, (rejection: Rejection) => Rejection>> = {
  openai: (rejection) => rejection,
  messages: asMessagesRejection,
  gemini: toGoogleRejection,
  bedrock: toBedrockRejection,
};

function respondRejection(delivery: Delivery, openAiRejection: Rejection): Response {
  const rejection = REJECTIONS[delivery.api](openAiRejection);
  delivery.entry.finished = true;
  delivery.ledger.close(delivery.entry);
  return new Response(rejection.body, {
    status: rejection.status,
    headers: { ...headersFor(delivery, "application/json"), ...rejection.headers },
  });
}

function closeAborted(delivery: Delivery): Response {
  delivery.entry.abortedByClient = true;
  delivery.ledger.close(delivery.entry);
  return new Response(null, { status: 499 });
}

function respondWhole(delivery: Delivery, reply: JsonReply): Response {
  const { clock, fault, entry, ledger } = delivery;
  const headers = headersFor(delivery, "application/json");
  if (fault !== null && BODY_FAULTS.has(fault.name)) {
    // Bun omits the length of a streamed body. Behind the fault proxy the header is kept, with a wrong length.
    if (fault.name === "truncated") headers["content-length"] = String(Buffer.byteLength(reply.body));
    return respondStream(delivery, bodyOps(reply.body, fault), headers, reply);
  }
  const isEmpty = fault?.name === "empty";
  if (!isEmpty) book(entry, reply, reply.usage.output);
  entry.finished = true;
  entry.sentAt = clock.nowMs();
  ledger.close(entry);
  if (isEmpty) return new Response("", { headers });
  if (fault?.name === "gzip") {
    return new Response(gzipSync(reply.body), { headers: { ...headers, "content-encoding": "gzip" } });
  }
  return new Response(reply.body, { headers });
}

function respondEvents(delivery: Delivery, reply: EventsReply): Response {
  const framing = delivery.api === "bedrock" ? BEDROCK_FRAMES : SERVER_EVENTS;
  const headers = headersFor(delivery, framing.contentType);
  headers["cache-control"] = "no-cache, no-transform";
  const ops = eventOps(reply.frames, delivery.fault, framing);
  if (delivery.fault?.name !== "gzip") return respondStream(delivery, ops, headers, reply);
  const parts: Uint8Array[] = [];
  for (const op of ops) if (op.kind === "bytes") parts.push(op.bytes);
  const zipped: WireOp = { kind: "bytes", bytes: gzipSync(Buffer.concat(parts)), frame: null };
  book(delivery.entry, reply, reply.usage.output);
  return respondStream(delivery, [zipped], { ...headers, "content-encoding": "gzip" });
}

function respondStream(
  delivery: Delivery,
  ops: Iterable<WireOp>,
  headers: Record<string, string>,
  reply: EventsReply | JsonReply | null = null,
): Response {
  const { clock, entry, ledger } = delivery;
  const tally = delivery.tokens.openTally();
  const body = bodyStream(ops[Symbol.iterator](), delivery.behaviour?.intervalMs ?? 0, {
    sent(frame) {
      entry.eventsSent++;
      entry.sentAt = clock.nowMs();
      if (frame.isTextDelta) entry.textDeltasSent++;
      tally.add(frame);
    },
    ended(how) {
      entry.finished = how === "finished";
      entry.abortedByClient = how === "aborted";
      if (reply?.kind === "events")
        book(entry, reply, producedTokens(reply, tally.tokens(), how !== "finished"));
      else if (reply !== null) book(entry, reply, reply.usage.output);
      ledger.close(entry);
    },
  });
  return new Response(body, { headers });
}

/** Records the output that was really produced: an aborted stream counts only what it sent. */
export function book(entry: LedgerEntry, reply: EventsReply | JsonReply, outputTokens: number): void {
  entry.outputTokens = outputTokens;
  entry.reasoningTokens = Math.min(reply.usage.reasoning, outputTokens);
  if (outputTokens >= reply.usage.output) entry.images = reply.images;
}

function headersFor(delivery: Delivery, contentType: string): Record<string, string> {
  const headers = apiHeaders(delivery, contentType);
  if (delivery.fault?.name !== "canary-ok") return headers;
  return { ...headers, ...canaryHeaders(readCredential(delivery.request.headers) ?? "") };
}

function apiHeaders(delivery: Delivery, contentType: string): Record<string, string> {
  switch (delivery.api) {
    case "messages":
      return messagesHeaders(delivery, contentType);
    case "bedrock":
      return { "content-type": contentType, "x-amzn-requestid": crypto.randomUUID() };
    default:
      return {
        "content-type": contentType,
        "x-request-id": delivery.requestId,
        "openai-organization": "org-simulator",
        "openai-processing-ms": "1",
      };
  }
}

function messagesHeaders({ requestId, entry }: Delivery, contentType: string): Record<string, string> {
  return {
    "content-type": contentType,
    "request-id": requestId,
    "anthropic-organization-id": "org-simulator",
    "anthropic-ratelimit-requests-limit": "1000",
    "anthropic-ratelimit-requests-remaining": "999",
    "anthropic-ratelimit-requests-reset": new Date(entry.at + 60_000).toISOString(),
  };
}

/** Resolves to false when the client disconnects first; `null` waits only for that. */
function waitFor(ms: number | null, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve(false);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const leave = (): void => {
      clearTimeout(timer);
      resolve(false);
    };
    signal.addEventListener("abort", leave, { once: true });
    if (ms === null) return;
    timer = setTimeout(() => {
      signal.removeEventListener("abort", leave);
      resolve(true);
    }, ms);
  });
}
