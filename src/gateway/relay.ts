/**
 * The stream a client reads. It pulls from the upstream only as fast as the client takes (nothing is
 * buffered in between), keeps silent connections alive, and always ends with exactly one terminal event.
 */

import { ApiError } from "../errors.ts";
import type { StreamReader } from "../interfaces/stream.ts";
import type { OnDisconnect } from "../records.ts";
import { failed, type UpstreamFailure } from "../upstreams/failure.ts";
import { KEEP_ALIVE } from "../wire/sse-write.ts";
import type { Pulled, UpstreamStream } from "./upstream-stream.ts";

/** How a stream ended, for the record. */
export type StreamEnd =
  | { kind: "complete"; reader: StreamReader }
  /** `cut`: it fell silent or broke off; null where the upstream itself said that it failed. */
  | { kind: "broken"; reader: StreamReader | null; error: ApiError; cut: UpstreamFailure | null }
  | { kind: "client_gone"; reader: StreamReader | null };

export interface RelayOptions {
  /** The upstream's stream once an account has been found; rejects with the `ApiError` that the client gets. */
  opening: Promise<UpstreamStream>;
  /** Writes the failure when no upstream stream was ever opened. */
  spareReader: StreamReader;
  requestId: string;
  onDisconnect: OnDisconnect;
  /** The client counts data events only (Codex does), so comments will not keep it. */
  needsDataEvents: boolean;
  describeFailure(failure: UpstreamFailure): ApiError;
  /** Called once, before the terminal event is written, with all that the record needs. */
  settle(end: StreamEnd): void;
  /** Closes the connection of a client that takes nothing more. */
  cutOff(): void;
  /** When the client began to wait, if it has had nothing since then. */
  waitingSinceMs?: number;
  pulse: Pulse;
  monotonicMs(): number;
  timing: RelayTiming;
}

export interface RelayTiming {
  keepAliveMs: number;
  silentReasoningMs: number;
  idleTimeoutMs: number;
  writeStallMs: number;
  drainOnDisconnectMs: number;
}

/** One timer for all streams instead of several for each. */
export interface Pulse {
  add(beat: (nowMs: number) => void): () => void;
}

export function relay(options: RelayOptions): ReadableStream<Uint8Array> {
  const { timing, monotonicMs } = options;
  let upstream: UpstreamStream | null = null;
  let controller: ReadableStreamDefaultController<Uint8Array> | null = null;
  let pulling = false;
  let over = false;
  let gone = false;
  let lastWriteMs = options.waitingSinceMs ?? monotonicMs();
  let lastDataWriteMs = lastWriteMs;

  const stopBeat = options.pulse.add(beat);

  function end(how: StreamEnd): void {
    if (over) return;
    over = true;
    stopBeat();
    options.settle(how);
  }

  async function pull(to: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    pulling = true;
    try {
      upstream ??= await options.opening;
      const pulled = await upstream.pull();
      if (!over && !gone) write(to, pulled, upstream);
    } catch (thrown) {
      if (!over && !gone) fail(to, options.spareReader, asFailure(thrown), null);
    } finally {
      pulling = false;
    }
  }

  function write(
    to: ReadableStreamDefaultController<Uint8Array>,
    pulled: Pulled,
    from: UpstreamStream,
  ): void {
    lastWriteMs = lastDataWriteMs = monotonicMs();
    switch (pulled.kind) {
      case "bytes":
        to.enqueue(pulled.bytes);
        return;
      case "end":
        if (pulled.bytes.length > 0) to.enqueue(pulled.bytes);
        end({ kind: "complete", reader: from.reader });
        if (pulled.terminal.length > 0) to.enqueue(pulled.terminal);
        to.close();
        return;
      case "broken":
        if (pulled.bytes.length > 0) to.enqueue(pulled.bytes);
        fail(to, from.reader, options.describeFailure(pulled.failure), cutBy(pulled.failure));
        return;
    }
  }

  function fail(
    to: ReadableStreamDefaultController<Uint8Array>,
    reader: StreamReader,
    error: ApiError,
    cut: UpstreamFailure | null,
  ): void {
    end({ kind: "broken", reader: upstream?.reader ?? null, error, cut });
    to.enqueue(reader.failure(error, options.requestId));
    to.close();
  }

  function asFailure(thrown: unknown): ApiError {
    return thrown instanceof ApiError
      ? thrown
      : options.describeFailure(failed("server", "the relay failed"));
  }

  function beat(nowMs: number): void {
    if (!pulling) {
      // The client has not asked for more since the last write: it is slow, or gone without saying so.
      if (nowMs - lastWriteMs > timing.writeStallMs) {
        // Without a reason: the runtime then prints nothing. It would go on waiting to send what it holds.
        controller?.error();
        options.cutOff();
        leave();
      }
      return;
    }
    if (upstream && nowMs - upstream.lastDataMs() > timing.idleTimeoutMs) {
      upstream.abort(failed("timeout", "the stream went silent"));
      return;
    }
    if (nowMs - lastWriteMs < timing.keepAliveMs || !controller) return;
    lastWriteMs = nowMs;
    if (options.needsDataEvents && upstream && nowMs - lastDataWriteMs >= timing.silentReasoningMs) {
      const repeated = upstream.reader.stillWorking();
      if (repeated !== null) {
        lastDataWriteMs = nowMs;
        controller.enqueue(repeated);
        return;
      }
    }
    controller.enqueue(KEEP_ALIVE);
  }

  /** The client is gone. What happens upstream is the group's policy. */
  function leave(): void {
    if (over || gone) return;
    gone = true;
    if (!upstream) {
      const late = failed("reset", "the client left");
      options.opening.then((opened) => opened.abort(late)).catch(() => {});
      end({ kind: "client_gone", reader: null });
      return;
    }
    if (options.onDisconnect === "drain") {
      drain(upstream).catch(() => {});
      return;
    }
    upstream.abort(failed("reset", "the client left"));
    end({ kind: "client_gone", reader: upstream.reader });
  }

  /** Reads on without a reader, bounded, so that what was produced is known in full. */
  async function drain(from: UpstreamStream): Promise<void> {
    stopBeat();
    const giveUp = setTimeout(
      () => from.abort(failed("timeout", "the drain took too long")),
      timing.drainOnDisconnectMs,
    );
    try {
      for (let pulled = await from.pull(); pulled.kind === "bytes"; pulled = await from.pull());
    } finally {
      clearTimeout(giveUp);
      end({ kind: "client_gone", reader: from.reader });
    }
  }

  function start(to: ReadableStreamDefaultController<Uint8Array>): void {
    controller = to;
  }

  return new ReadableStream<Uint8Array>({ start, pull, cancel: leave }, { highWaterMark: 0 });
}

function cutBy(failure: UpstreamFailure): UpstreamFailure | null {
  return failure.class === "reset" || failure.class === "timeout" ? failure : null;
}

export function openPulse(everyMs: number, monotonicMs: () => number): Pulse & { stop(): void } {
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
