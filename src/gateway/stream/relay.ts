/**
 * The stream a client reads: as fast as the client takes it (while it does not, the upstream is held up), kept alive
 * while it is silent, and always ended by exactly one terminal event.
 */

import { type UpstreamFailure, upstreamFailure } from "../../accounts/failure.ts";
import { ApiError } from "../../errors.ts";
import type { ClientSink } from "../../net/wire/http-message.ts";
import { type Part, wholePart } from "../../net/wire/parts.ts";
import { KEEP_ALIVE } from "../../net/wire/sse-write.ts";
import type { StreamReader } from "../../protocols/shared/stream.ts";
import type { OnDisconnect } from "../../records.ts";
import type { UpstreamStream, UpstreamStreamStep } from "../upstream/upstream-stream.ts";

/** How a stream ended, for the record. */
export type StreamEnd =
  | { kind: "complete"; reader: StreamReader }
  /** `cut`: it fell silent or broke off; null where the upstream itself said that it failed. */
  | { kind: "broken"; reader: StreamReader | null; error: ApiError; cut: UpstreamFailure | null }
  /** `isWhole`: what it left was read to its end. `leftBy`: at a shutdown it is this process that leaves. */
  | { kind: "client_gone"; reader: StreamReader | null; isWhole: boolean; leftBy: "client" | "shutdown" };

/** The answer came to its end, be it an upstream's own error, whether or not its client was still there. */
export function isWhole(end: StreamEnd): boolean {
  return end.kind === "broken" ? end.cut === null : end.kind === "complete" || end.isWhole;
}

export interface RelayOptions {
  /** The upstream's stream once an account has been found; rejects with the `ApiError` that the client gets. */
  opening: Promise<UpstreamStream>;
  /** Writes the failure when no upstream stream was ever opened. */
  openSpareReader(): StreamReader;
  requestId: string;
  onDisconnect: OnDisconnect;
  /** Somebody pays: an upstream that has nearly ended when its client leaves may still tell what it used. */
  isPaid: boolean;
  /** The client counts data events only (Codex does), so comments will not keep it. */
  needsDataEvents: boolean;
  describeFailure(failure: UpstreamFailure): ApiError;
  /** Called once with all that the record needs. The terminal event is written when it is settled; null: at once. */
  settle(end: StreamEnd): Promise<void> | null;
  /** Once a beat. An error ends the stream with it: nobody pays for more. */
  checkpoint: (() => ApiError | null) | null;
  /** Whether there is room for one more upstream without a client; `leftDrain` gives it back. */
  mayDrain(): boolean;
  leftDrain(): void;
  /** Closes the connection of a client that takes nothing more. */
  cutOff(): void;
  /** When the client began to wait, if it has had nothing since then. */
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
  add(beat: (nowMs: number) => void): () => void;
}

export interface Relay {
  /** To be called once. */
  flowTo(sink: ClientSink): void;
  /** The client is gone. What happens upstream is the group's policy. */
  leave(): void;
  /** The process ends: whoever still reads is gone, and nothing is read on. */
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
  /** Why it is read without a client: to its end (`drain`), or only while its end is near (`last words`). */
  let readOn: "drain" | "last words" | null = null;
  let isListening = false;
  let goneMs = 0;
  let stoppedBy: ApiError | null = null;
  let stopDraining: ReturnType<typeof setTimeout> | undefined;
  let lastWriteMs = options.waitingSinceMs ?? monotonicMs();
  let lastDataWriteMs = lastWriteMs;

  const stopBeat = options.pulse.add(beat);

  function end(how: StreamEnd): Promise<void> | null {
    if (isOver) return null;
    isOver = true;
    stopBeat();
    if (readOn !== null) options.leftDrain();
    clearTimeout(stopDraining);
    return options.settle(how);
  }

  function gone(isWhole: boolean): void {
    end({ kind: "client_gone", reader: upstream?.reader ?? null, isWhole, leftBy });
  }

  function take(step: UpstreamStreamStep): void {
    if (isOver) return;
    if (isGone) {
      // Read on without a client, so that all of what was produced is known.
      if (step.kind !== "events") gone(step.kind === "end");
      else if (readOn === "last words" && !upstream?.reader.isEnding()) letGo();
      return;
    }
    // Data is written as soon as it comes, so one look at the clock serves both.
    lastWriteMs = lastDataWriteMs = upstream?.lastDataMs() ?? monotonicMs();
    if (step.kind === "end") {
      complete(step.parts, step.terminal);
      return;
    }
    if (step.parts.length > 0) write(step.parts);
    if (step.kind === "broken") {
      if (stoppedBy !== null) fail(stoppedBy, null);
      else fail(options.describeFailure(step.failure), cutBy(step.failure));
    }
  }

  function write(parts: readonly Part[]): void {
    const room = sink?.write(parts) ?? null;
    if (room === null || isBlocked) return;
    isBlocked = true;
    upstream?.pause();
    room.then(unblock, unblock);
  }

  function unblock(): void {
    isBlocked = false;
    lastWriteMs = monotonicMs();
    if (!isOver) upstream?.resume();
  }

  /** The last words and the terminal event are one piece, unless that has to wait for the settlement. */
  function complete(parts: readonly Part[], terminal: readonly Part[]): void {
    if (upstream === null) return;
    const settled = end({ kind: "complete", reader: upstream.reader });
    if (settled === null) sink?.end(parts.length === 0 ? terminal : [...parts, ...terminal]);
    else {
      if (parts.length > 0) write(parts);
      sayLast(settled, terminal);
    }
  }

  function sayLast(settled: Promise<void> | null, terminal: readonly Part[]): void {
    const say = () => sink?.end(terminal);
    if (settled === null) say();
    // What could not be settled is the operator's trouble, not the client's.
    else settled.then(say, say);
  }

  function fail(error: ApiError, cut: UpstreamFailure | null): void {
    const settled = end({ kind: "broken", reader: upstream?.reader ?? null, error, cut });
    const reader = upstream?.reader ?? options.openSpareReader();
    sayLast(settled, wholePart(reader.failure(error, options.requestId)));
  }

  function beat(nowMs: number): void {
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
      // The client has taken nothing since the last write: it is slow, or gone without saying so.
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
    goneMs = monotonicMs();
    if (upstream !== null) {
      if (!mayReadOn(upstream)) letGo();
    } else if (options.onDisconnect === "drain") {
      // Dispatch counts the client as present for a while longer, and a stream that it opens is read to its end.
      listen();
    } else letGo();
  }

  /** Settled first: aborting reports the end. */
  function letGo(): void {
    const left = upstreamFailure("reset", "the client left");
    gone(false);
    if (upstream !== null) upstream.abort(left);
    else options.opening.then((opened) => opened.abort(left)).catch(() => {});
  }

  /** Reads on until the upstream has ended, or the time for that is over. */
  function mayReadOn(from: UpstreamStream): boolean {
    const isDrained = options.onDisconnect === "drain";
    if (!isDrained && !(options.isPaid && from.reader.isEnding())) return false;
    if (!options.mayDrain()) return false;
    readOn = isDrained ? "drain" : "last words";
    const ms = isDrained ? timing.drainOnDisconnectMs : timing.lastWordsMs;
    stopDraining = setTimeout(
      () => from.abort(upstreamFailure("timeout", "the drain took too long")),
      Math.max(0, ms - (monotonicMs() - goneMs)),
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
        if (isGone && !mayReadOn(opened)) letGo();
        else opened.flowTo(take);
      },
      (thrown: unknown) => {
        if (isOver) return;
        if (isGone) letGo();
        else fail(asFailure(thrown), null);
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
      if (!isOver) letGo();
    },
  };

  function asFailure(thrown: unknown): ApiError {
    return thrown instanceof ApiError
      ? thrown
      : options.describeFailure(upstreamFailure("server", "the relay failed"));
  }
}

function cutBy(failure: UpstreamFailure): UpstreamFailure | null {
  return failure.class === "reset" || failure.class === "timeout" ? failure : null;
}

export function openKeepAliveTimer(
  everyMs: number,
  monotonicMs: () => number,
): KeepAliveTimer & { stop(): void } {
  const beats = new Set<(nowMs: number) => void>();
  const timer = setInterval(() => {
    const nowMs = monotonicMs();
    for (const beat of beats) beat(nowMs);
  }, everyMs);
  timer.unref();
  return {
    add(beat) {
      beats.add(beat);
      return () => beats.delete(beat);
    },
    stop: () => clearInterval(timer),
  };
}
