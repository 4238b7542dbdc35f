import { gzipSync } from "node:zlib";
import { bodyStream } from "./body-stream.ts";
import type { Refusal } from "./errors.ts";
import { canaryHeaders, earlyFault } from "./faults.ts";
import type { Ledger, LedgerEntry } from "./ledger.ts";
import { producedTokens } from "./left-stream.ts";
import type { Behaviour, Fault } from "./model-name.ts";
import type { EventsReply, JsonReply, Reply } from "./reply.ts";
import type { TokenRule } from "./tokens.ts";
import { BODY_FAULTS, bodyOps, eventOps, type WireOp } from "./wire.ts";

export interface Delivery {
  request: Request;
  /** Null for calls that name no model. */
  behaviour: Behaviour | null;
  fault: Fault | null;
  entry: LedgerEntry;
  ledger: Ledger;
  tokens: TokenRule;
  requestId: string;
  nowMs: number;
}

export const SLOW_HEADERS_MS = 5_000;

/** Gives the answer its pace and its faults, and books what became of it. */
export function deliver(delivery: Delivery, answer: () => Reply): Response | Promise<Response> {
  const { fault, behaviour } = delivery;
  // Most answers come at once and whole: they are spared the promise.
  if (fault === null && (behaviour === null || behaviour.firstMs === 0)) return given(delivery, answer());
  return deliverLate(delivery, answer);
}

async function deliverLate(delivery: Delivery, answer: () => Reply): Promise<Response> {
  const { fault, entry, request } = delivery;
  const delayMs =
    fault?.name === "slow-headers"
      ? (fault.durationMs ?? SLOW_HEADERS_MS)
      : (delivery.behaviour?.firstMs ?? 0);
  if (delayMs > 0 && !(await waited(delayMs, request.signal))) return abandoned(delivery);

  if (fault !== null) {
    const { nowMs } = delivery;
    const credential = credentialOf(request.headers) ?? "";
    const early = earlyFault(fault, { streams: entry.stream, nowMs, credential });
    if (early === "never") {
      await waited(null, request.signal);
      return abandoned(delivery);
    }
    if (early === "reset") return streamed(delivery, [{ kind: "reset" }], {});
    if (early !== null) return refused(delivery, early);
  }
  return given(delivery, answer());
}

function given(delivery: Delivery, reply: Reply): Response {
  if (reply.kind === "refusal") return refused(delivery, reply);
  delivery.entry.inputTokens = reply.usage.input;
  delivery.entry.cachedTokens = reply.usage.cached;
  return reply.kind === "json" ? whole(delivery, reply) : events(delivery, reply);
}

/** The caller's credential, in either of the headers that carry one. */
export function credentialOf(headers: Headers): string | null {
  const authorization = headers.get("authorization");
  if (authorization !== null) return authorization.replace(/^bearer\s+/i, "");
  return headers.get("api-key");
}

function refused(delivery: Delivery, answer: Refusal): Response {
  delivery.entry.finished = true;
  delivery.ledger.close(delivery.entry);
  return new Response(answer.body, {
    status: answer.status,
    headers: { ...headersFor(delivery, "application/json"), ...answer.headers },
  });
}

function abandoned(delivery: Delivery): Response {
  delivery.entry.abortedByClient = true;
  delivery.ledger.close(delivery.entry);
  return new Response(null, { status: 499 });
}

function whole(delivery: Delivery, reply: JsonReply): Response {
  const { fault, entry, ledger } = delivery;
  const headers = headersFor(delivery, "application/json");
  if (fault !== null && BODY_FAULTS.has(fault.name)) {
    // Bun leaves the length out of a streamed body; behind the fault door it stands, and is a lie.
    if (fault.name === "truncated") headers["content-length"] = String(Buffer.byteLength(reply.body));
    return streamed(delivery, bodyOps(reply.body, fault), headers, reply);
  }
  const isEmpty = fault?.name === "empty";
  if (!isEmpty) book(entry, reply, reply.usage.output);
  entry.finished = true;
  ledger.close(entry);
  if (isEmpty) return new Response("", { headers });
  if (fault?.name === "gzip") {
    return new Response(gzipSync(reply.body), { headers: { ...headers, "content-encoding": "gzip" } });
  }
  return new Response(reply.body, { headers });
}

function events(delivery: Delivery, reply: EventsReply): Response {
  const headers = headersFor(delivery, "text/event-stream; charset=utf-8");
  headers["cache-control"] = "no-cache, no-transform";
  const ops = eventOps(reply.frames, delivery.fault);
  if (delivery.fault?.name !== "gzip") return streamed(delivery, ops, headers, reply);
  const parts: Uint8Array[] = [];
  for (const op of ops) if (op.kind === "bytes") parts.push(op.bytes);
  const zipped: WireOp = { kind: "bytes", bytes: gzipSync(Buffer.concat(parts)), frame: null };
  book(delivery.entry, reply, reply.usage.output);
  return streamed(delivery, [zipped], { ...headers, "content-encoding": "gzip" });
}

function streamed(
  delivery: Delivery,
  ops: Iterable<WireOp>,
  headers: Record<string, string>,
  reply: EventsReply | JsonReply | null = null,
): Response {
  const { entry, ledger } = delivery;
  const tally = delivery.tokens.openTally();
  const body = bodyStream(ops[Symbol.iterator](), delivery.behaviour?.intervalMs ?? 0, {
    sent(frame) {
      entry.eventsSent++;
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

/** Output is what was really said: an aborted stream has produced only what it had sent. */
export function book(entry: LedgerEntry, reply: EventsReply | JsonReply, outputTokens: number): void {
  entry.outputTokens = outputTokens;
  entry.reasoningTokens = Math.min(reply.usage.reasoning, outputTokens);
  if (outputTokens >= reply.usage.output) entry.images = reply.images;
}

function headersFor(delivery: Delivery, contentType: string): Record<string, string> {
  const headers: Record<string, string> = {
    "content-type": contentType,
    "x-request-id": delivery.requestId,
    "openai-organization": "org-simulator",
    "openai-processing-ms": "1",
  };
  if (delivery.fault?.name !== "canary-ok") return headers;
  return { ...headers, ...canaryHeaders(credentialOf(delivery.request.headers) ?? "") };
}

/** False when the client left first; `null` waits for that alone. */
function waited(ms: number | null, signal: AbortSignal): Promise<boolean> {
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
