/** The place of one request in its distributed trace: its ids, and whether the trace was chosen for export. */

import type { HeaderReader } from "../net/wire/http-fields.ts";
import { isInRatio } from "./sampling.ts";
import {
  deriveTraceId,
  formatTraceparent,
  parseTraceparent,
  type RemoteParent,
  readTracestate,
} from "./trace-context.ts";

/**
 * What the trace context of a client decides. `follow`: its trace is continued, and its sampling decision applies.
 * `continue`: its trace is continued, and the sample ratio decides. `ignore`: every request starts a new trace.
 */
export const CLIENT_CONTEXTS = ["follow", "continue", "ignore"] as const;
type ClientContext = (typeof CLIENT_CONTEXTS)[number];

export interface SamplingOptions {
  readonly sampleRatio: number;
  readonly clientContext: ClientContext;
}

export class SpanContext {
  readonly traceId: string;
  /** The span of the client that sent the request; null if the request starts the trace. */
  readonly parentSpanId: string | null;
  readonly spanId: string;
  /** Chosen at the start of the request. Errors and slow requests are exported even if this is false. */
  readonly isSampled: boolean;
  readonly #tracestate: string | null;
  readonly #spanIds: SpanIds;
  #attemptSpanIds: string[] | null = null;

  constructor(
    spanIds: SpanIds,
    place: { traceId: string; parent: RemoteParent | null; isSampled: boolean; tracestate: string | null },
  ) {
    this.#spanIds = spanIds;
    this.traceId = place.traceId;
    this.parentSpanId = place.parent?.spanId ?? null;
    this.spanId = spanIds.next();
    this.isSampled = place.isSampled;
    this.#tracestate = place.tracestate;
  }

  /** The id of the span of an attempt, the same at every call. Attempts are counted from 0. */
  attemptSpanId(attempt: number): string {
    this.#attemptSpanIds ??= [];
    const known = this.#attemptSpanIds[attempt];
    if (known !== undefined) return known;
    const created = this.#spanIds.next();
    this.#attemptSpanIds[attempt] = created;
    return created;
  }

  /** The header lines that continue the trace at the upstream of an attempt. */
  headerLines(attempt: number): string {
    const traceparent = formatTraceparent(this.traceId, this.attemptSpanId(attempt), this.isSampled);
    const lines = `traceparent: ${traceparent}\r\n`;
    return this.#tracestate === null ? lines : `${lines}tracestate: ${this.#tracestate}\r\n`;
  }
}

export function openSpanContext(
  spanIds: SpanIds,
  { sampleRatio, clientContext }: SamplingOptions,
  request: { readonly requestId: string; readonly headers: HeaderReader },
): SpanContext {
  const parent =
    clientContext === "ignore" ? null : parseTraceparent(request.headers.get(TRACEPARENT_HEADER));
  const traceId = parent?.traceId ?? deriveTraceId(request.requestId) ?? spanIds.next() + spanIds.next();
  const isSampled =
    parent !== null && clientContext === "follow" ? parent.isSampled : isInRatio(traceId, sampleRatio);
  const tracestate = parent === null ? null : readTracestate(request.headers.get("tracestate"));
  return new SpanContext(spanIds, { traceId, parent, isSampled, tracestate });
}

const TRACEPARENT_HEADER = "traceparent";

const POOL_BYTES = 8_192;
const SPAN_ID_CHARS = 16;
const NO_SPAN_ID = "0".repeat(SPAN_ID_CHARS);

/** Random span ids. The random digits of a thousand ids are generated at once, which costs little more than one id. */
export class SpanIds {
  readonly #randomBytes: (count: number) => Uint8Array;
  #digits = "";
  #at = 0;

  constructor(randomBytes: (count: number) => Uint8Array) {
    this.#randomBytes = randomBytes;
  }

  next(): string {
    if (this.#at >= this.#digits.length) {
      const bytes = this.#randomBytes(POOL_BYTES);
      this.#digits = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex");
      this.#at = 0;
    }
    const from = this.#at;
    this.#at = from + SPAN_ID_CHARS;
    const id = this.#digits.slice(from, this.#at);
    // The specification reserves the id of zeros.
    return id === NO_SPAN_ID ? this.next() : id;
  }
}
