import { gzipSync } from "node:zlib";
import { bodyStream } from "./body-stream.ts";
import type { Refusal } from "./errors.ts";
import { canaryHeaders, earlyFault } from "./faults.ts";
import type { Ledger, LedgerEntry } from "./ledger.ts";
import type { Behaviour, Fault } from "./model-name.ts";
import type { EventsReply, JsonReply, Reply } from "./reply.ts";
import { tokensOfBytes } from "./text.ts";
import { BODY_FAULTS, bodyOps, eventOps, type WireOp } from "./wire.ts";

export interface Delivery {
  request: Request;
  /** Null for calls that name no model. */
  behaviour: Behaviour | null;
  fault: Fault | null;
  entry: LedgerEntry;
  ledger: Ledger;
  requestId: string;
  credential: string;
  nowMs: number;
}

const SLOW_HEADERS_MS = 5_000;

/** Gives the answer its pace and its faults, and books what became of it. */
export async function deliver(delivery: Delivery, answer: () => Reply): Promise<Response> {
  const { fault, entry, request } = delivery;
  const delayMs =
    fault?.name === "slow-headers"
      ? (fault.durationMs ?? SLOW_HEADERS_MS)
      : (delivery.behaviour?.firstMs ?? 0);
  if (delayMs > 0 && !(await waited(delayMs, request.signal))) return abandoned(delivery);

  if (fault !== null) {
    const { credential, nowMs } = delivery;
    const early = earlyFault(fault, { streams: entry.stream, nowMs, credential });
    if (early === "never") {
      await waited(null, request.signal);
      return abandoned(delivery);
    }
    if (early === "reset") return streamed(delivery, [{ kind: "reset" }], {});
    if (early !== null) return refused(delivery, early);
  }

  const reply = answer();
  if (reply.kind === "refusal") return refused(delivery, reply);
  entry.inputTokens = reply.usage.input;
  entry.cachedTokens = reply.usage.cached;
  const headers = fault?.name === "canary-ok" ? canaryHeaders(delivery.credential) : {};
  return reply.kind === "json" ? whole(delivery, reply, headers) : events(delivery, reply, headers);
}

function refused(delivery: Delivery, answer: Refusal): Response {
  delivery.entry.finished = true;
  delivery.ledger.close(delivery.entry);
  return new Response(answer.body, {
    status: answer.status,
    headers: { ...standardHeaders(delivery), "content-type": "application/json", ...answer.headers },
  });
}

function abandoned(delivery: Delivery): Response {
  delivery.entry.abortedByClient = true;
  delivery.ledger.close(delivery.entry);
  return new Response(null, { status: 499 });
}

function whole(delivery: Delivery, reply: JsonReply, headers: Record<string, string>): Response {
  const { fault, entry, ledger } = delivery;
  const all = { ...standardHeaders(delivery), "content-type": "application/json", ...headers };
  if (fault !== null && BODY_FAULTS.has(fault.name)) {
    // Bun leaves the length out of a streamed body; behind the fault door it stands, and is a lie.
    if (fault.name === "truncated") Object.assign(all, { "content-length": Buffer.byteLength(reply.body) });
    return streamed(delivery, bodyOps(reply.body, fault), all, reply);
  }
  const isEmpty = fault?.name === "empty";
  if (!isEmpty) book(entry, reply, reply.usage.output);
  entry.finished = true;
  ledger.close(entry);
  if (isEmpty) return new Response("", { headers: all });
  if (fault?.name === "gzip") {
    return new Response(gzipSync(reply.body), { headers: { ...all, "content-encoding": "gzip" } });
  }
  return new Response(reply.body, { headers: all });
}

function events(delivery: Delivery, reply: EventsReply, headers: Record<string, string>): Response {
  const all: Record<string, string> = {
    ...standardHeaders(delivery),
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache, no-transform",
    ...headers,
  };
  const ops = eventOps(reply.frames, delivery.fault);
  if (delivery.fault?.name !== "gzip") return streamed(delivery, ops, all, reply);
  const parts: Uint8Array[] = [];
  for (const op of ops) if (op.kind === "bytes") parts.push(op.bytes);
  const zipped: WireOp = { kind: "bytes", bytes: gzipSync(Buffer.concat(parts)), frame: null };
  book(delivery.entry, reply, reply.usage.output);
  return streamed(delivery, [zipped], { ...all, "content-encoding": "gzip" });
}

function streamed(
  delivery: Delivery,
  ops: Iterable<WireOp>,
  headers: Record<string, string>,
  reply: EventsReply | JsonReply | null = null,
): Response {
  const { entry, ledger } = delivery;
  let outputBytes = 0;
  const body = bodyStream(ops[Symbol.iterator](), delivery.behaviour?.intervalMs ?? 0, {
    sent(frame) {
      entry.eventsSent++;
      if (frame.isTextDelta) entry.textDeltasSent++;
      outputBytes += frame.outputBytes;
    },
    ended(how) {
      entry.finished = how === "finished";
      entry.abortedByClient = how === "aborted";
      if (reply?.kind === "events") book(entry, reply, tokensOfBytes(outputBytes));
      else if (reply !== null) book(entry, reply, reply.usage.output);
      ledger.close(entry);
    },
  });
  return new Response(body, { headers });
}

/** Output is what was really said: an aborted stream has produced only what it had sent. */
function book(entry: LedgerEntry, reply: EventsReply | JsonReply, outputTokens: number): void {
  entry.outputTokens = outputTokens;
  entry.reasoningTokens = Math.min(reply.usage.reasoning, outputTokens);
  if (outputTokens >= reply.usage.output) entry.images = reply.images;
}

function standardHeaders(delivery: Delivery): Record<string, string> {
  return {
    "x-request-id": delivery.requestId,
    "openai-version": "2020-10-01",
    "openai-organization": "org-simulator",
    "openai-processing-ms": "1",
  };
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
