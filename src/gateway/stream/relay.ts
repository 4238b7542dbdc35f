/**
 * Relays a stream to its client: with back-pressure on the upstream, with keep-alives while the stream is silent, and
 * always ended by exactly one terminal event.
 */

import { type UpstreamFailure, upstreamFailure } from "../../accounts/failure.ts";
import { ApiError } from "../../errors.ts";
import type { ClientSink } from "../../net/wire/http-message.ts";
import { type Part, wholePart } from "../../net/wire/parts.ts";
import { KEEP_ALIVE } from "../../net/wire/sse-write.ts";
import type { StreamReader } from "../../protocols/shared/stream.ts";
import type { OnDisconnect } from "../../records.ts";
import type { UpstreamStream, UpstreamStreamStep } from "../upstream/upstream-stream.ts";

/** How a stream ended, for the request record. */
export type StreamEnd =
  | { kind: "complete"; reader: StreamReader }
  /** `cut`: the stream fell silent or broke off; null if the upstream itself reported a failure. */
  | { kind: "broken"; reader: StreamReader | null; error: ApiError; cut: UpstreamFailure | null }
  /** `isWhole`: the stream was drained to its end. `leftBy`: at shutdown this process aborts the request. */
  | { kind: "client_gone"; reader: StreamReader | null; isWhole: boolean; leftBy: "client" | "shutdown" };

/** The stream reached its end, even if with an upstream error and whether or not the client was still connected. */
export function isWhole(end: StreamEnd): boolean {
  return end.kind === "broken" ? end.cut === null : end.kind === "complete" || end.isWhole;
}

export interface RelayOptions {
  /** Resolves with the upstream stream; rejects with the `ApiError` for the client. */
  opening: Promise<UpstreamStream>;
  /** Opens the reader that writes the failure if no upstream stream was opened. */
  openSpareReader(): StreamReader;
  requestId: string;
  onDisconnect: OnDisconnect;
  /** The request is paid: if the stream has nearly ended when the client disconnects, it is read on for its usage. */
  isPaid: boolean;
  /** The client counts only data events, as Codex does, so comments do not keep it connected. */
  needsDataEvents: boolean;
  describeFailure(failure: UpstreamFailure): ApiError;
  /**
   * Called once with the end of the stream. The terminal event is written after the promise resolves, or at once if it
   * is null.
   */
  settle(end: StreamEnd): Promise<void> | null;
  /** Called on every tick. A returned error ends the stream: its output exceeds the hold. */
  checkpoint: (() => ApiError | null) | null;
  /** Whether one more upstream may be drained; `leftDrain` releases it. */
  mayDrain(): boolean;
  leftDrain(): void;
  /** Closes the connection of a client that does not read. */
  cutOff(): void;
  /** When the client began to wait, if it has received nothing since then. */
  waitingSinceMs?: number;
  pulse: KeepAliveTimer;
  monotonicMs(): number;
  timing: RelayTiming;
}

export interface RelayTiming {
  keepAliveMs: number;
  silentReasoningMs: number;
  idleTimeoutMs: number;
  writeStallMs: number;
  drainOnDisconnectMs: number;
  lastWordsMs: number;
}

/** One timer for all streams instead of several for each. */
export interface KeepAliveTimer {
  add(tick: (nowMs: number) => void): () => void;
}

export interface Relay {
  /** Call it once. */
  flowTo(sink: ClientSink): void;
  /** The client disconnected. The group's `onDisconnect` decides whether the upstream is drained or cancelled. */
  leave(): void;
  /** The process shuts down: clients are disconnected and nothing is drained. */
  cut(): void;
}

export function openRelay(options: RelayOptions): Relay {
  const { timing, monotonicMs } = options;
  let upstream: UpstreamStream | null = null;
  let sink: ClientSink | null = null;
  let isBlocked = false;
  let isOver = false;
  let isGone = false;
  let leftBy: "client" | "shutdown" = "client";
  /** Why the stream is read without a client: to its end (`drain`), or only while its end is near (`last words`). */
  let readOn: "drain" | "last words" | null = null;
  let isListening = false;
  let leftAtMs = 0;
  let stoppedBy: ApiError | null = null;
  let stopDraining: ReturnType<typeof setTimeout> | undefined;
  let lastWriteMs = options.waitingSinceMs ?? monotonicMs();
  let lastDataWriteMs = lastWriteMs;

  const stopTicks = options.pulse.add(tick);

  function end(how: StreamEnd): Promise<void> | null {
    if (isOver) return null;
    isOver = true;
    stopTicks();
    if (readOn !== null) options.leftDrain();
    clearTimeout(stopDraining);
    return options.settle(how);
  }

  function endGone(isWhole: boolean): void {
    end({ kind: "client_gone", reader: upstream?.reader ?? null, isWhole, leftBy });
  }

  function take(step: UpstreamStreamStep): void {
    if (isOver) return;
    if (isGone) {
      // Drained, so that the use of the whole response is known.
      if (step.kind !== "events") endGone(step.kind === "end");
      else if (readOn === "last words" && !upstream?.reader.isEnding()) abandonUpstream();
      return;
    }
    // Data is written as soon as it arrives, so one clock reading serves both.
    lastWriteMs = lastDataWriteMs = upstream?.lastDataMs() ?? monotonicMs();
    if (step.kind === "end") {
      complete(step.parts, step.terminal);
      return;
    }
    if (step.parts.length > 0) write(step.parts);
    if (step.kind === "broken") {
      if (stoppedBy !== null) fail(stoppedBy, null);
      else fail(options.describeFailure(step.failure), asCut(step.failure));
    }
  }

  function write(parts: readonly Part[]): void {
    const drained = sink?.write(parts) ?? null;
    if (drained === null || isBlocked) return;
    isBlocked = true;
    upstream?.pause();
    drained.then(unblock, unblock);
  }

  function unblock(): void {
    isBlocked = false;
    lastWriteMs = monotonicMs();
    if (!isOver) upstream?.resume();
  }

  /** The last events and the terminal one are one write, unless the terminal event must wait for the settlement. */
  function complete(parts: readonly Part[], terminal: readonly Part[]): void {
    if (upstream === null) return;
    const settled = end({ kind: "complete", reader: upstream.reader });
    if (settled === null) sink?.end(parts.length === 0 ? terminal : [...parts, ...terminal]);
    else {
      if (parts.length > 0) write(parts);
      writeTerminal(settled, terminal);
    }
  }

  function writeTerminal(settled: Promise<void> | null, terminal: readonly Part[]): void {
    const writeLast = () => sink?.end(terminal);
    if (settled === null) writeLast();
    // A failed settlement concerns the operator, not the client.
    else settled.then(writeLast, writeLast);
  }

  function fail(error: ApiError, cut: UpstreamFailure | null): void {
    const settled = end({ kind: "broken", reader: upstream?.reader ?? null, error, cut });
    const reader = upstream?.reader ?? options.openSpareReader();
    writeTerminal(settled, wholePart(reader.failure(error, options.requestId)));
  }

  function tick(nowMs: number): void {
    if (upstream !== null) {
      stoppedBy = options.checkpoint?.() ?? null;
      if (stoppedBy !== null) upstream.abort(upstreamFailure("rejected", "nobody pays for more"));
    }
    if (isOver) return;
    if (isGone) {
      if (readOn !== null && upstream) abortIfSilent(upstream, nowMs);
      return;
    }
    if (isBlocked || sink === null) {
      // The client has not read since the last write: it is slow, or gone without closing the connection.
      if (nowMs - lastWriteMs > timing.writeStallMs) {
        options.cutOff();
        leave();
      }
      return;
    }
    if (upstream && abortIfSilent(upstream, nowMs)) return;
    if (nowMs - lastWriteMs < timing.keepAliveMs) return;
    lastWriteMs = nowMs;
    if (options.needsDataEvents && upstream && nowMs - lastDataWriteMs >= timing.silentReasoningMs) {
      const repeated = upstream.reader.stillWorking();
      if (repeated !== null) {
        lastDataWriteMs = nowMs;
        write(wholePart(repeated));
        return;
      }
    }
    write(wholePart(KEEP_ALIVE));
  }

  function abortIfSilent(from: UpstreamStream, nowMs: number): boolean {
    if (nowMs - from.lastDataMs() <= timing.idleTimeoutMs) return false;
    from.abort(upstreamFailure("timeout", "the stream went silent"));
    return true;
  }

  function leave(): void {
    if (isOver || isGone) return;
    isGone = true;
    leftAtMs = monotonicMs();
    if (upstream !== null) {
      if (!startReadingOn(upstream)) abandonUpstream();
    } else if (options.onDisconnect === "drain") {
      // Dispatch counts the client as connected for some more time. A stream that it opens is drained.
      listen();
    } else abandonUpstream();
  }

  /** Settles first, because aborting reports an end too. */
  function abandonUpstream(): void {
    const failure = upstreamFailure("reset", "the client left");
    endGone(false);
    if (upstream !== null) upstream.abort(failure);
    else options.opening.then((opened) => opened.abort(failure)).catch(() => {});
  }

  /** Reads on until the upstream ends or the drain times out. */
  function startReadingOn(from: UpstreamStream): boolean {
    const isDrained = options.onDisconnect === "drain";
    if (!isDrained && !(options.isPaid && from.reader.isEnding())) return false;
    if (!options.mayDrain()) return false;
    readOn = isDrained ? "drain" : "last words";
    const ms = isDrained ? timing.drainOnDisconnectMs : timing.lastWordsMs;
    stopDraining = setTimeout(
      () => from.abort(upstreamFailure("timeout", "the drain took too long")),
      Math.max(0, ms - (monotonicMs() - leftAtMs)),
    );
    from.resume();
    return true;
  }

  function listen(): void {
    if (isListening) return;
    isListening = true;
    options.opening.then(
      (opened) => {
        if (isOver) return;
        upstream = opened;
        if (isGone && !startReadingOn(opened)) abandonUpstream();
        else opened.flowTo(take);
      },
      (cause: unknown) => {
        if (isOver) return;
        if (isGone) abandonUpstream();
        else fail(asFailure(cause), null);
      },
    );
  }

  return {
    flowTo(client) {
      sink = client;
      listen();
    },
    leave,
    cut() {
      if (!isGone) leftBy = "shutdown";
      leave();
      if (!isOver) abandonUpstream();
    },
  };

  function asFailure(cause: unknown): ApiError {
    return cause instanceof ApiError
      ? cause
      : options.describeFailure(upstreamFailure("server", "the relay failed"));
  }
}

function asCut(failure: UpstreamFailure): UpstreamFailure | null {
  return failure.class === "reset" || failure.class === "timeout" ? failure : null;
}

export function openKeepAliveTimer(
  everyMs: number,
  monotonicMs: () => number,
): KeepAliveTimer & { stop(): void } {
  const beats = new Set<(nowMs: number) => void>();
  const timer = setInterval(() => {
    const nowMs = monotonicMs();
    for (const tick of beats) tick(nowMs);
  }, everyMs);
  timer.unref();
  return {
    add(tick) {
      beats.add(tick);
      return () => beats.delete(tick);
    },
    stop: () => clearInterval(timer),
  };
}
