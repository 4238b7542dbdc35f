/** Streams live data to the console once a second: computed once for all viewers, if there are any. */

import type { Clock } from "../../base/clock.ts";
import { ApiError } from "../../errors.ts";
import { FrameSampler, type FrameSamplerOptions } from "./frame-sampler.ts";
import type { LiveFrame } from "./live-frame.ts";

interface Watcher {
  readonly userId: string;
  /** Called every few frames: a stream must end when the access of its viewer is revoked. */
  isStillAllowed(): Promise<boolean>;
}

const FRAME_INTERVAL_MS = 1_000;
const RECHECK_INTERVAL_MS = 3_000;
/** The browser reconnects afterwards. */
const WATCH_MS_MAX = 300_000;
const STREAMS_PER_USER_MAX = 10;
/** A slow browser misses frames instead of accumulating them in memory. */
const FRAMES_BUFFERED_MAX = 4;

export function openLive(options: Omit<FrameSamplerOptions, "frameIntervalMs">): Live {
  const sampler = new FrameSampler({ ...options, frameIntervalMs: FRAME_INTERVAL_MS });
  return new Live(sampler, options.gateway.clock);
}

export class Live {
  readonly #sampler: FrameSampler;
  readonly #clock: Pick<Clock, "monotonicMs">;
  readonly #viewers = new Set<Viewer>();
  /** Null while there is no viewer. */
  #timer: ReturnType<typeof setInterval> | null = null;

  constructor(sampler: FrameSampler, clock: Pick<Clock, "monotonicMs">) {
    this.#sampler = sampler;
    this.#clock = clock;
  }

  /** Server-sent events, the first one immediately. Ends when `signal` is aborted, and after `WATCH_MS_MAX`. */
  watch(signal: AbortSignal, watcher: Watcher): ReadableStream<Uint8Array> {
    rejectTooManyStreams(this.#viewers, watcher);
    const viewer = new Viewer(watcher, {
      signal,
      openedMs: this.#clock.monotonicMs(),
      onEnd: () => this.#removeViewer(viewer),
    });
    return new ReadableStream(
      {
        start: (controller) => this.#addViewer(viewer, controller),
        cancel: () => viewer.cancel(),
      },
      new CountQueuingStrategy({ highWaterMark: FRAMES_BUFFERED_MAX }),
    );
  }

  #addViewer(viewer: Viewer, controller: ReadableStreamDefaultController<Uint8Array>): void {
    this.#viewers.add(viewer);
    viewer.open(controller);
    if (!this.#viewers.has(viewer)) return;
    this.#timer ??= setInterval(() => this.#sendFrames(), FRAME_INTERVAL_MS);
    viewer.sendFrame(encodeEvent(this.#sampler.next(this.#clock.monotonicMs())));
  }

  #removeViewer(viewer: Viewer): void {
    this.#viewers.delete(viewer);
    if (this.#viewers.size > 0 || this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
    this.#sampler.reset();
  }

  #sendFrames(): void {
    const nowMs = this.#clock.monotonicMs();
    const bytes = encodeEvent(this.#sampler.next(nowMs));
    for (const viewer of [...this.#viewers]) viewer.onFrame(bytes, nowMs);
  }
}

interface ViewerOptions {
  readonly signal: AbortSignal;
  readonly openedMs: number;
  onEnd(): void;
}

type ViewerState =
  | { readonly phase: "opening" }
  | { readonly phase: "open"; readonly controller: ReadableStreamDefaultController<Uint8Array> }
  | { readonly phase: "ended" };

/** One stream of live data. */
class Viewer {
  readonly watcher: Watcher;
  readonly #signal: AbortSignal;
  readonly #untilMs: number;
  readonly #onEnd: () => void;
  readonly #onAbort = () => this.end();
  #recheckAtMs: number;
  #state: ViewerState = { phase: "opening" };

  constructor(watcher: Watcher, { signal, openedMs, onEnd }: ViewerOptions) {
    this.watcher = watcher;
    this.#signal = signal;
    this.#untilMs = openedMs + WATCH_MS_MAX;
    this.#recheckAtMs = openedMs + RECHECK_INTERVAL_MS;
    this.#onEnd = onEnd;
  }

  /** Ends the stream at once if its signal is already aborted. */
  open(controller: ReadableStreamDefaultController<Uint8Array>): void {
    this.#state = { phase: "open", controller };
    this.#signal.addEventListener("abort", this.#onAbort);
    if (this.#signal.aborted) this.end();
  }

  onFrame(bytes: Uint8Array, nowMs: number): void {
    if (nowMs >= this.#untilMs) this.end();
    else this.sendFrame(bytes);
    if (nowMs >= this.#recheckAtMs) void this.#recheckAccess(nowMs);
  }

  sendFrame(bytes: Uint8Array): void {
    if (this.#state.phase !== "open") return;
    const { controller } = this.#state;
    if ((controller.desiredSize ?? 0) > 0) controller.enqueue(bytes);
  }

  async #recheckAccess(nowMs: number): Promise<void> {
    this.#recheckAtMs = nowMs + RECHECK_INTERVAL_MS;
    if (!(await this.watcher.isStillAllowed())) this.end();
  }

  end(): void {
    if (this.#state.phase !== "open") return;
    const { controller } = this.#state;
    this.cancel();
    controller.close();
  }

  /** The reader has cancelled the stream, which closes it. */
  cancel(): void {
    if (this.#state.phase === "ended") return;
    this.#state = { phase: "ended" };
    this.#signal.removeEventListener("abort", this.#onAbort);
    this.#onEnd();
  }
}

const encoder = new TextEncoder();

function encodeEvent(frame: LiveFrame): Uint8Array {
  return encoder.encode(`data: ${JSON.stringify(frame)}\n\n`);
}

function rejectTooManyStreams(viewers: ReadonlySet<Viewer>, { userId }: Watcher): void {
  const ownStreams = [...viewers].filter(({ watcher }) => watcher.userId === userId);
  if (ownStreams.length < STREAMS_PER_USER_MAX) return;
  throw new ApiError(
    "rate_limit_exceeded",
    `You have ${STREAMS_PER_USER_MAX} live views open, which is the maximum. Close one of them.`,
  );
}
