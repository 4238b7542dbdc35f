/**
 * Decides which requests are captured, and stores them behind the response. Its queue and its memory are bounded: what
 * does not fit is dropped and counted, and no request waits for it.
 */

import type { Clock } from "../base/clock.ts";
import type { Log } from "../observe/log.ts";
import type { CaptureMode, CaptureStorage, KeyCapture } from "../records/capture.ts";
import type { Keyring } from "../secrets/keyring.ts";
import { type CaptureInsertion, insertCapture } from "../store/captures/captures.ts";
import type { Db } from "../store/engine/db.ts";
import type { UsageOutcome } from "../store/usage/usage-row.ts";
import type { ThreadPoolLimits } from "../threads/thread-pool.ts";
import type { CaptureMemory } from "./capped-bytes.ts";
import { CaptureThread } from "./capture-thread.ts";
import { type ArrivedRequest, type FinishedCapture, RequestCapture } from "./request-capture.ts";
import { createDataKey, sealDataKey } from "./sealed-content.ts";

interface CaptureLimits {
  /** Memory for captures in flight and in the queue. */
  readonly memoryBytesMax: number;
  readonly queueMax: number;
  /** How long a reader, or a process that stops, waits for the queue. */
  readonly flushMs: number;
}

interface CaptureRecorderOptions {
  readonly db: Db;
  readonly keyring: Keyring;
  readonly clock: Pick<Clock, "nowMs" | "monotonicMs">;
  readonly log: Log;
  readonly settings: CaptureStorage;
  readonly limits: CaptureLimits;
  readonly threadLimits: ThreadPoolLimits;
}

/** The caller, as far as it decides about captures. The object of a key is replaced when the key changes. */
interface CapturedCaller {
  readonly key: { readonly capture: KeyCapture | null };
  readonly group: { readonly capture: CaptureMode };
}

type DropReason = "memory" | "queue_full" | "failed";

/** Why a capture is taken. */
interface CaptureReason {
  readonly key: CapturedCaller["key"];
  readonly mode: CaptureMode;
  /** The capture is one of the next requests that an administrator ordered. */
  readonly isOrdered: boolean;
}

interface QueuedCapture {
  readonly capture: FinishedCapture;
  readonly reason: CaptureReason;
  /** Called when the capture is stored or dropped. */
  onDone(): void;
}

export class CaptureRecorder implements CaptureMemory {
  readonly dropped = new Map<DropReason, number>([
    ["memory", 0],
    ["queue_full", 0],
    ["failed", 0],
  ]);
  readonly settings: CaptureStorage;
  stored = 0;
  storedBytes = 0;
  readonly #options: CaptureRecorderOptions;
  readonly #thread: CaptureThread;
  readonly #queue: QueuedCapture[] = [];
  /** For each key with an order: the captures that this process has begun for it. */
  readonly #begunByKey = new WeakMap<CapturedCaller["key"], number>();
  #heldBytes = 0;
  #isWriting = false;
  #lastDone: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(options: CaptureRecorderOptions) {
    this.settings = options.settings;
    this.#options = options;
    this.#thread = new CaptureThread(options.threadLimits, options.clock.monotonicMs);
  }

  /** Null if the requests of this caller are not captured now. */
  findReason({ key, group }: CapturedCaller): CaptureReason | null {
    const mode = key.capture?.mode ?? group.capture;
    const isOrdered = this.#hasOpenOrder(key);
    return mode === "off" && !isOrdered ? null : { key, mode, isOrdered };
  }

  begin(reason: CaptureReason, request: ArrivedRequest): RequestCapture {
    const { key } = reason;
    if (reason.isOrdered) this.#countBegun(key, 1);
    return new RequestCapture(request, {
      memory: this,
      bodyBytesMax: this.settings.bodyBytesMax,
      onEnd: (end) => {
        if (end.kind === "finished") this.#add(end.capture, reason);
        else {
          if (end.kind === "dropped") this.#countDrop("memory");
          if (reason.isOrdered) this.#countBegun(key, -1);
        }
      },
    });
  }

  reserve(bytes: number): boolean {
    if (this.#heldBytes + bytes > this.#options.limits.memoryBytesMax) return false;
    this.#heldBytes += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#heldBytes -= bytes;
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  /**
   * Resolves when every capture that has ended so far is stored or dropped, or after a while: a reader does not wait for
   * a database that is slow. Captures that end later do not count.
   */
  async flush(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, this.#options.limits.flushMs);
    await Promise.race([this.#lastDone, promise]);
    clearTimeout(timer);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.flush();
    for (const { capture, onDone } of this.#queue.splice(0)) {
      this.release(capture.heldBytes);
      this.#countDrop("failed");
      onDone();
    }
    this.#thread.close();
  }

  /** More captures than were ordered are never begun here. The database makes the count exact over all nodes. */
  #hasOpenOrder(key: CapturedCaller["key"]): boolean {
    const { capture } = key;
    if (capture === null || capture.remaining === 0 || capture.untilMs <= this.#options.clock.nowMs())
      return false;
    return (this.#begunByKey.get(key) ?? 0) < capture.remaining;
  }

  #countBegun(key: CapturedCaller["key"], change: number): void {
    this.#begunByKey.set(key, (this.#begunByKey.get(key) ?? 0) + change);
  }

  #countDrop(reason: DropReason): void {
    this.dropped.set(reason, (this.dropped.get(reason) ?? 0) + 1);
  }

  #add(capture: FinishedCapture, reason: CaptureReason): void {
    const isWanted = reason.isOrdered || isWantedByMode(capture, reason.mode);
    const isFull = this.#queue.length >= this.#options.limits.queueMax;
    if (!isWanted || isFull || this.#isClosed) {
      this.release(capture.heldBytes);
      if (reason.isOrdered) this.#countBegun(reason.key, -1);
      if (isWanted) this.#countDrop(isFull ? "queue_full" : "failed");
      return;
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#lastDone = promise;
    this.#queue.push({ capture, reason, onDone: resolve });
    if (!this.#isWriting) void this.#writeAll();
  }

  /** One after the other, so that a burst of captures takes one connection and one thread. */
  async #writeAll(): Promise<void> {
    this.#isWriting = true;
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
      const { capture, reason, onDone } = next;
      try {
        await this.#write(capture, reason);
      } catch (error) {
        this.#countDrop("failed");
        if (reason.isOrdered) this.#countBegun(reason.key, -1);
        this.#options.log.warn("capture_failed", {
          request_id: capture.ending.requestId,
          reason: error instanceof Error ? error.message : "unknown",
        });
      }
      this.release(capture.heldBytes);
      onDone();
    }
    this.#isWriting = false;
  }

  async #write(capture: FinishedCapture, reason: CaptureReason): Promise<void> {
    const { db, keyring } = this.#options;
    const { redactions, budgetBytes } = this.settings;
    const { ending, draft, secrets } = capture;
    const { requestId } = ending;
    const dataKey = createDataKey();
    const content = await this.#thread.seal({
      requestId,
      draft,
      rules: { secrets, patterns: redactions },
      dataKey,
    });
    const insertion = await insertCapture(
      db,
      {
        requestId,
        atMs: ending.atMs,
        keyId: ending.keyId,
        userId: ending.userId,
        groupId: ending.groupId,
        endpoint: ending.endpoint,
        // PostgreSQL rejects this character in a text.
        model: ending.publicModel.replaceAll("\0", ""),
        status: ending.status,
        outcome: ending.outcome,
        storedBytes: content.length,
        sealedKey: sealDataKey(keyring, requestId, dataKey),
        content,
      },
      {
        order: reason.isOrdered ? { startedMs: ending.atMs - ending.durationMs } : null,
        isWantedAnyway: isWantedByMode(capture, reason.mode),
        budgetBytes,
      },
    );
    this.#countInsertion(insertion, reason, content.length);
  }

  #countInsertion(insertion: CaptureInsertion, { key, isOrdered }: CaptureReason, bytes: number): void {
    if (insertion.kind === "stored") {
      this.stored++;
      this.storedBytes += bytes;
    }
    // Other nodes have taken the rest of the order: no further request of this key is copied in vain.
    const isUsedUp =
      insertion.kind === "not_ordered" || (insertion.kind === "stored" && insertion.left === 0);
    if (isOrdered && isUsedUp) this.#begunByKey.set(key, Number.POSITIVE_INFINITY);
  }
}

const FAILURES: ReadonlySet<UsageOutcome> = new Set(["failed", "refused", "upstream_cut"]);

function isWantedByMode({ ending }: FinishedCapture, mode: CaptureMode): boolean {
  if (mode === "errors") return FAILURES.has(ending.outcome) || ending.status >= 400;
  return mode === "all";
}
