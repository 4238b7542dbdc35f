/**
 * Exports queued spans in batches. One batch is in flight at a time; while a collector is unavailable the batch is sent
 * again with growing pauses, and the bounded queue drops what does not fit. Requests never wait for any of it.
 */

import type { Log } from "../observe/log.ts";
import type { OtlpClient } from "./otlp-client.ts";
import type { MessageFrame, Span } from "./span.ts";
import { type QueueLimits, type SpanBatch, SpanQueue } from "./span-queue.ts";

interface ExportLimits extends QueueLimits {
  /** How long a span may wait for others. */
  readonly intervalMs: number;
  /** The pauses between the attempts of one batch. After the last one the batch is dropped. */
  readonly retriesMs: readonly number[];
  /** A collector may request a longer pause, up to this. */
  readonly retryAfterMsMax: number;
  /** How long the process waits for the last batches when it stops. */
  readonly flushMs: number;
}

interface SpanExporterOptions {
  readonly client: Pick<OtlpClient, "send">;
  /** What the messages of this process have in common. Called when the first message is written. */
  readonly frame: () => MessageFrame;
  readonly log: Pick<Log, "warn" | "info">;
  readonly limits: ExportLimits;
}

/**
 * `queue_full`: the queue was full. `unavailable`: the collector did not accept the batch in time. `rejected`: the
 * collector rejected the batch or some of its spans. `shutdown`: the process stopped before the spans were sent.
 */
const DROP_REASONS = ["queue_full", "unavailable", "rejected", "shutdown"] as const;
type DropReason = (typeof DROP_REASONS)[number];

type State =
  /** The queue is empty, or waits for more spans. */
  | { readonly kind: "idle" }
  | { readonly kind: "sending"; readonly batch: SpanBatch }
  /** The collector was unavailable. */
  | { readonly kind: "pausing"; readonly batch: SpanBatch; readonly wake: () => void }
  | { readonly kind: "closed" };

const IDLE: State = { kind: "idle" };

export class SpanExporter {
  readonly #options: SpanExporterOptions;
  readonly #queue: SpanQueue;
  readonly #dropped = new Map<DropReason, number>(DROP_REASONS.map((reason) => [reason, 0]));
  #exported = 0;
  #state: State = IDLE;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #exporting: Promise<void> = Promise.resolve();
  #isFailing = false;
  #isClosing = false;

  constructor(options: SpanExporterOptions) {
    this.#options = options;
    const { limits, frame } = options;
    this.#queue = new SpanQueue({ limits, frame, onDrop: (spans) => this.#drop("queue_full", spans) });
  }

  /** Spans since the start of the process. */
  get exported(): number {
    return this.#exported;
  }

  get dropped(): ReadonlyMap<DropReason, number> {
    return this.#dropped;
  }

  add(spans: readonly Span[]): void {
    if (this.#isClosing) {
      this.#drop("shutdown", spans.length);
      return;
    }
    this.#queue.add(spans);
    if (this.#state.kind !== "idle") return;
    if (this.#queue.hasFullBatch) this.#start();
    else if (this.#timer === null) this.#startTimer();
  }

  /** Sends what is queued, for a limited time. Spans that could not be sent are counted as dropped. */
  async close(): Promise<void> {
    this.#isClosing = true;
    const { promise: timeUp, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, this.#options.limits.flushMs);
    const state = this.#state;
    if (state.kind === "idle") this.#start();
    if (state.kind === "pausing") state.wake();
    await Promise.race([this.#exporting, timeUp]);
    clearTimeout(timer);
    this.#stopTimer();
    if (this.#state.kind === "sending") this.#drop("shutdown", this.#state.batch.spans);
    this.#state = { kind: "closed" };
    for (let left = this.#queue.take(); left !== null; left = this.#queue.take())
      this.#drop("shutdown", left.spans);
  }

  #startTimer(): void {
    this.#timer = setTimeout(() => {
      this.#timer = null;
      if (this.#state.kind === "idle") this.#start();
    }, this.#options.limits.intervalMs);
    this.#timer.unref();
  }

  #stopTimer(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  #start(): void {
    this.#stopTimer();
    this.#exporting = this.#exportQueued();
  }

  /** Sends batches until none is full. The rest waits for the next interval. */
  async #exportQueued(): Promise<void> {
    for (let batch = this.#queue.take(); batch !== null; batch = this.#queue.take()) {
      await this.#exportBatch(batch);
      if (this.#hasClosed()) return;
      if (!this.#queue.hasFullBatch && !this.#isClosing) break;
    }
    this.#state = IDLE;
    if (!this.#queue.isEmpty) this.#startTimer();
  }

  async #exportBatch(batch: SpanBatch): Promise<void> {
    const { client, limits } = this.#options;
    for (let attempt = 0; ; attempt++) {
      this.#state = { kind: "sending", batch };
      const result = await client.send(batch.message);
      if (this.#hasClosed()) return;
      if (result.kind === "accepted") {
        this.#exported += batch.spans - result.rejectedSpans;
        this.#drop("rejected", result.rejectedSpans);
        this.#noteSuccess();
        return;
      }
      this.#noteFailure(result.reason);
      const pauseMs = limits.retriesMs[attempt];
      if (result.kind === "rejected" || pauseMs === undefined || this.#isClosing) {
        this.#drop(result.kind, batch.spans);
        return;
      }
      const askedMs = Math.min(result.retryAfterMs ?? 0, limits.retryAfterMsMax);
      await this.#pause(batch, Math.max(pauseMs, askedMs));
    }
  }

  #hasClosed(): boolean {
    return this.#state.kind === "closed";
  }

  #pause(batch: SpanBatch, pauseMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, pauseMs);
      timer.unref();
      const wake = () => {
        clearTimeout(timer);
        resolve();
      };
      this.#state = { kind: "pausing", batch, wake };
    });
  }

  #drop(reason: DropReason, spans: number): void {
    this.#dropped.set(reason, (this.#dropped.get(reason) ?? 0) + spans);
  }

  /** The log reports when export begins to fail and when it works again, not every failure in between. */
  #noteFailure(reason: string): void {
    if (!this.#isFailing) this.#options.log.warn("telemetry_export_failed", { reason });
    this.#isFailing = true;
  }

  #noteSuccess(): void {
    if (this.#isFailing) this.#options.log.info("telemetry_export_recovered");
    this.#isFailing = false;
  }
}
