/** Creates the span context of each request, decides which requests are exported, and hands their spans to the exporter. */

import type { HeaderReader } from "../net/wire/http-fields.ts";
import { openSpanContext, type SamplingOptions, type SpanContext, SpanIds } from "./span-context.ts";
import type { SpanExporter } from "./span-exporter.ts";
import { deriveTraceId } from "./trace-context.ts";

interface TracerOptions extends SamplingOptions {
  readonly exporter: SpanExporter;
  readonly randomBytes: (count: number) => Uint8Array;
  /** Requests that take at least this long are always exported. */
  readonly slowMs: number;
  /** Whether spans contain the address of the client. */
  readonly clientAddress: boolean;
  /** The URL of a trace for people, with `{trace_id}`; null if none is configured. */
  readonly traceUrl: string | null;
}

/** The end of a request, as far as it decides about the export. */
interface EndedSpan {
  readonly durationMs: number;
  readonly isError: boolean;
}

export class Tracer {
  readonly #options: TracerOptions;
  readonly #spanIds: SpanIds;

  constructor(options: TracerOptions) {
    this.#options = options;
    this.#spanIds = new SpanIds(options.randomBytes);
  }

  get hasClientAddress(): boolean {
    return this.#options.clientAddress;
  }

  get exporter(): SpanExporter {
    return this.#options.exporter;
  }

  begin(requestId: string, headers: HeaderReader): SpanContext {
    return openSpanContext(this.#spanIds, this.#options, { requestId, headers });
  }

  /** Faults of the gateway or an upstream and slow requests are exported even if their trace is not sampled. */
  isExported(context: SpanContext, { durationMs, isError }: EndedSpan): boolean {
    return context.isSampled || isError || durationMs >= this.#options.slowMs;
  }

  /** `stored` is the id of a trace that a client started; without one the request started its own trace. */
  traceId(requestId: string, stored: string | null): string | null {
    return stored ?? deriveTraceId(requestId);
  }

  /** The page of a trace in the operator's tool; null if none is configured. */
  traceUrl(traceId: string): string | null {
    return this.#options.traceUrl?.replaceAll("{trace_id}", traceId) ?? null;
  }
}
