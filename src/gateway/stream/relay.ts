/**
 * Relays a stream to its client: with back-pressure on the upstream, with keep-alives while the stream is silent, and
 * always ended by exactly one terminal event.
 */

import { type UpstreamFailure, upstreamFailure } from "../../accounts/failure.ts";
import type { Clock } from "../../base/clock.ts";
import { type Part, wholePart } from "../../base/parts.ts";
import type { RequestCapture } from "../../capture/request-capture.ts";
import { ApiError } from "../../errors.ts";
import type { StreamSink, StreamSource } from "../../net/wire/http-message.ts";
import type { StreamReader } from "../../protocols/shared/stream.ts";
import type { OnDisconnect } from "../../records/group.ts";
import type { EventSink, StreamTail, UpstreamStream } from "../upstream/upstream-stream.ts";
import type { KeepAliveTimer } from "./keep-alive-timer.ts";

/** How a stream ended, for the request record. */
export type StreamEnd =
  | { kind: "complete"; reader: StreamReader }
  /** `interruption`: the stream fell silent or broke off; null if the upstream itself reported a failure. */
  | { kind: "broken"; reader: StreamReader | null; error: ApiError; interruption: UpstreamFailure | null }
  | ClientGone;

interface ClientGone {
  kind: "client_gone";
  reader: StreamReader | null;
  /** The stream was drained to its end. */
  isWhole: boolean;
  /** At shutdown this process aborts the request. */
  abortedBy: "client" | "shutdown";
}

/** The stream reached its end, even if with an upstream error and whether or not the client was still connected. */
export function isWhole(end: StreamEnd): boolean {
  return end.kind === "broken" ? end.interruption === null : end.kind === "complete" || end.isWhole;
}

/** The delivery that a relay works for: what it needs of the request, and what follows the end of the stream. */
export interface RelayDelivery {
  readonly requestId: string;
  readonly onDisconnect: OnDisconnect;
  /** The request is paid: if the stream has nearly ended when the client disconnects, it is read on for its usage. */
  readonly isPaid: boolean;
  /** Written while the stream is silent: a comment, or an event that clients of the interface count as traffic. */
  readonly keepAlive: Uint8Array;
  /** The client counts only data events, as Codex does, so comments do not keep it connected. */
  readonly needsDataEvents: boolean;
  /** When the client began to wait, if it has received nothing since then. */
  readonly waitingSinceMs?: number;
  /** Null unless the request is captured. */
  readonly capture: Pick<RequestCapture, "tapStream" | "endWithoutClient"> | null;
  /** Opens the reader that writes the failure if no upstream stream was opened. */
  openSpareReader(): StreamReader;
  describeFailure(failure: UpstreamFailure): ApiError;
  /** Called on every tick. A returned error ends the stream: its output exceeds the hold. */
  checkpoint(): ApiError | null;
  /** Whether one more upstream may be drained; `endDrain` releases it. */
  tryStartDrain(): boolean;
  endDrain(): void;
  /** Closes the connection of a client that does not read. */
  closeConnection(): void;
  /** Called once. The terminal event is written when the promise resolves, or at once if it is null. */
  settle(end: StreamEnd): Promise<void> | null;
}

export interface RelayServices {
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly keepAliveTimer: KeepAliveTimer;
  readonly timing: RelayTiming;
}

export interface RelayTiming {
  keepAliveMs: number;
  silentReasoningMs: number;
  idleTimeoutMs: number;
  writeStallMs: number;
  drainOnDisconnectMs: number;
  endingDrainMs: number;
}

/** Why a stream is read without a client: to its end, or, if it is paid, only while its end is near. */
type DrainReason = "group_policy" | "near_end";

type ConnectedState =
  /** The client has not begun to read. */
  | { readonly kind: "waiting" }
  /** The upstream stream is not open yet. */
  | { readonly kind: "opening"; readonly sink: StreamSink }
  | { readonly kind: "flowing"; readonly sink: StreamSink; readonly upstream: UpstreamStream }
  /** The client reads too slowly. The upstream stream is null if it is not open yet. */
  | { readonly kind: "blocked"; readonly sink: StreamSink; readonly upstream: UpstreamStream | null };

type State =
  | ConnectedState
  /** The client disconnected before the upstream stream was open. It is drained when it opens. */
  | { readonly kind: "disconnected"; readonly sinceMs: number }
  | DrainingState
  | { readonly kind: "ended" };

interface DrainingState {
  readonly kind: "draining";
  readonly upstream: UpstreamStream;
  readonly reason: DrainReason;
  readonly timer: ReturnType<typeof setTimeout>;
}

const WAITING: State = { kind: "waiting" };
const ENDED: State = { kind: "ended" };

export class Relay implements StreamSource, EventSink {
  readonly #services: RelayServices;
  readonly #opening: Promise<UpstreamStream>;
  readonly #delivery: RelayDelivery;
  readonly #stopTicks: () => void;
  #state: State = WAITING;
  #lastWriteMs: number;
  #lastDataWriteMs: number;

  /** `opening` resolves with the upstream stream, or rejects with the `ApiError` for the client. */
  constructor(services: RelayServices, opening: Promise<UpstreamStream>, delivery: RelayDelivery) {
    this.#services = services;
    this.#opening = opening;
    this.#delivery = delivery;
    this.#lastWriteMs = delivery.waitingSinceMs ?? services.clock.monotonicMs();
    this.#lastDataWriteMs = this.#lastWriteMs;
    this.#stopTicks = services.keepAliveTimer.add((nowMs) => this.#tick(nowMs));
  }

  // The client side.

  flowTo(sink: StreamSink): void {
    if (this.#state.kind !== "waiting") return;
    const { capture } = this.#delivery;
    this.#state = { kind: "opening", sink: capture === null ? sink : capture.tapStream(sink) };
    this.#awaitOpening();
  }

  pause(): void {
    const state = this.#state;
    if (state.kind === "opening") this.#state = { kind: "blocked", sink: state.sink, upstream: null };
    if (state.kind !== "flowing") return;
    const { sink, upstream } = state;
    this.#state = { kind: "blocked", sink, upstream };
    upstream.pause();
  }

  resume(): void {
    const state = this.#state;
    if (state.kind !== "blocked") return;
    const { sink, upstream } = state;
    this.#state = upstream === null ? { kind: "opening", sink } : { kind: "flowing", sink, upstream };
    this.#lastWriteMs = this.#services.clock.monotonicMs();
    upstream?.resume();
  }

  /** The client disconnected. The group's `onDisconnect` decides whether the upstream is drained or cancelled. */
  abort(): void {
    const state = this.#state;
    if (!isConnected(state)) return;
    const sinceMs = this.#services.clock.monotonicMs();
    const upstream = openUpstream(state);
    if (upstream !== null) {
      if (!this.#tryDrain(upstream, sinceMs)) this.#abandon(upstream, "client");
    } else if (this.#delivery.onDisconnect === "drain") {
      // Dispatch counts the client as connected for some more time. A stream that it opens is drained.
      this.#state = { kind: "disconnected", sinceMs };
      if (state.kind === "waiting") this.#awaitOpening();
    } else this.#abandon(null, "client");
  }

  /** The process shuts down: clients are disconnected and nothing is drained. */
  shutDown(): void {
    const state = this.#state;
    if (state.kind !== "ended")
      this.#abandon(openUpstream(state), isConnected(state) ? "shutdown" : "client");
  }

  // The upstream side.

  data(events: readonly Part[]): void {
    const state = this.#state;
    if (state.kind === "flowing" || state.kind === "blocked") {
      // Data is written as soon as it arrives, so one clock reading serves both.
      this.#lastWriteMs = this.#lastDataWriteMs =
        state.upstream?.lastDataMs ?? this.#services.clock.monotonicMs();
      state.sink.data(events);
    } else if (state.kind === "draining") {
      if (state.reason === "near_end" && !state.upstream.reader.isEnding())
        this.#abandon(state.upstream, "client");
    }
  }

  /** The last events and the terminal one are one write, unless the terminal event must wait for the settlement. */
  end({ events, terminal }: StreamTail): void {
    const state = this.#state;
    if (state.kind === "draining") this.#end({ ...clientGone(state.upstream, "client"), isWhole: true });
    if (state.kind !== "flowing" && state.kind !== "blocked") return;
    const { sink, upstream } = state;
    if (upstream === null) return;
    const settled = this.#end({ kind: "complete", reader: upstream.reader });
    if (settled === null) sink.end(events.length === 0 ? terminal : [...events, ...terminal]);
    else {
      if (events.length > 0) sink.data(events);
      writeTerminal(sink, settled, terminal);
    }
  }

  fail(failure: UpstreamFailure): void {
    const state = this.#state;
    if (state.kind === "draining") this.#end(clientGone(state.upstream, "client"));
    else if (state.kind === "flowing" || state.kind === "blocked")
      this.#break(this.#delivery.describeFailure(failure), asInterruption(failure));
  }

  // Opening.

  #awaitOpening(): void {
    this.#opening.then(
      (upstream) => this.#handleOpened(upstream),
      (cause: unknown) => this.#handleOpenFailure(cause),
    );
  }

  #handleOpened(upstream: UpstreamStream): void {
    const state = this.#state;
    switch (state.kind) {
      case "opening":
        this.#state = { kind: "flowing", sink: state.sink, upstream };
        upstream.flowTo(this);
        return;
      case "blocked":
        this.#state = { kind: "blocked", sink: state.sink, upstream };
        upstream.flowTo(this);
        upstream.pause();
        return;
      case "disconnected":
        if (this.#tryDrain(upstream, state.sinceMs)) upstream.flowTo(this);
        else this.#abandon(upstream, "client");
        return;
    }
  }

  #handleOpenFailure(cause: unknown): void {
    if (this.#state.kind === "disconnected") this.#abandon(null, "client");
    else if (cause instanceof ApiError) this.#break(cause, null);
    else this.#break(this.#delivery.describeFailure(upstreamFailure("server", "the relay failed")), null);
  }

  // Ticks.

  #tick(nowMs: number): void {
    const upstream = openUpstream(this.#state);
    if (upstream !== null && this.#stopIfUnpaid(upstream)) return;
    const state = this.#state;
    switch (state.kind) {
      case "waiting":
      case "blocked":
        this.#disconnectIfStalled(nowMs);
        return;
      case "opening":
        this.#keepAlive(nowMs, state.sink, null);
        return;
      case "flowing":
        if (!this.#abortIfSilent(state.upstream, nowMs)) this.#keepAlive(nowMs, state.sink, state.upstream);
        return;
      case "draining":
        this.#abortIfSilent(state.upstream, nowMs);
        return;
    }
  }

  /** Ends a stream whose output exceeds its hold. */
  #stopIfUnpaid(upstream: UpstreamStream): boolean {
    const error = this.#delivery.checkpoint();
    if (error === null) return false;
    upstream.abort();
    if (this.#state.kind === "draining") this.#end(clientGone(upstream, "client"));
    else this.#break(error, null);
    return true;
  }

  /** The client has not read since the last write: it is slow, or gone without closing the connection. */
  #disconnectIfStalled(nowMs: number): void {
    if (nowMs - this.#lastWriteMs <= this.#services.timing.writeStallMs) return;
    this.#delivery.closeConnection();
    this.abort();
  }

  #abortIfSilent(upstream: UpstreamStream, nowMs: number): boolean {
    if (nowMs - upstream.lastDataMs <= this.#services.timing.idleTimeoutMs) return false;
    upstream.abort();
    this.fail(upstreamFailure("timeout", "the stream timed out"));
    return true;
  }

  #keepAlive(nowMs: number, sink: StreamSink, upstream: UpstreamStream | null): void {
    const { timing } = this.#services;
    const { needsDataEvents, keepAlive } = this.#delivery;
    if (nowMs - this.#lastWriteMs < timing.keepAliveMs) return;
    this.#lastWriteMs = nowMs;
    const isDue = needsDataEvents && nowMs - this.#lastDataWriteMs >= timing.silentReasoningMs;
    const repeated = isDue && upstream !== null ? upstream.reader.progressEvent() : null;
    if (repeated !== null) this.#lastDataWriteMs = nowMs;
    sink.data(wholePart(repeated ?? keepAlive));
  }

  // The end.

  /** Reads on until the upstream ends or the drain times out. Returns false if the stream may not be drained. */
  #tryDrain(upstream: UpstreamStream, disconnectedAtMs: number): boolean {
    const { timing, clock } = this.#services;
    const reason = this.#findDrainReason(upstream);
    if (reason === null || !this.#delivery.tryStartDrain()) return false;
    const drainMs = reason === "group_policy" ? timing.drainOnDisconnectMs : timing.endingDrainMs;
    const timer = setTimeout(
      () => this.#stopDraining(upstream),
      Math.max(0, drainMs - (clock.monotonicMs() - disconnectedAtMs)),
    );
    this.#state = { kind: "draining", upstream, reason, timer };
    upstream.resume();
    return true;
  }

  #findDrainReason({ reader }: UpstreamStream): DrainReason | null {
    const { onDisconnect, isPaid } = this.#delivery;
    if (onDisconnect === "drain") return "group_policy";
    return isPaid && reader.isEnding() ? "near_end" : null;
  }

  /** The drain took too long. */
  #stopDraining(upstream: UpstreamStream): void {
    upstream.abort();
    this.#end(clientGone(upstream, "client"));
  }

  /** Settles, then aborts the upstream stream, also if it opens later. */
  #abandon(upstream: UpstreamStream | null, abortedBy: "client" | "shutdown"): void {
    this.#end(clientGone(upstream, abortedBy));
    if (upstream !== null) upstream.abort();
    else this.#opening.then((opened) => opened.abort()).catch(() => {});
  }

  /** Ends the response with an error event. */
  #break(error: ApiError, interruption: UpstreamFailure | null): void {
    const state = this.#state;
    if (state.kind !== "opening" && state.kind !== "flowing" && state.kind !== "blocked") return;
    const delivery = this.#delivery;
    const reader = openUpstream(state)?.reader ?? null;
    const settled = this.#end({ kind: "broken", reader, error, interruption });
    const terminal = (reader ?? delivery.openSpareReader()).failure(error, delivery.requestId);
    writeTerminal(state.sink, settled, wholePart(terminal));
  }

  #end(how: StreamEnd): Promise<void> | null {
    const state = this.#state;
    this.#state = ENDED;
    this.#stopTicks();
    if (state.kind === "draining") {
      clearTimeout(state.timer);
      this.#delivery.endDrain();
    }
    if (how.kind === "client_gone") this.#delivery.capture?.endWithoutClient();
    return this.#delivery.settle(how);
  }
}

function isConnected(state: State): state is ConnectedState {
  return state.kind !== "disconnected" && state.kind !== "draining" && state.kind !== "ended";
}

function openUpstream(state: State): UpstreamStream | null {
  return state.kind === "flowing" || state.kind === "blocked" || state.kind === "draining"
    ? state.upstream
    : null;
}

/** The end of a stream that was not read to its end. */
function clientGone(upstream: UpstreamStream | null, abortedBy: "client" | "shutdown"): ClientGone {
  return { kind: "client_gone", reader: upstream?.reader ?? null, isWhole: false, abortedBy };
}

function writeTerminal(sink: StreamSink, settled: Promise<void> | null, terminal: readonly Part[]): void {
  const writeLast = () => sink.end(terminal);
  if (settled === null) writeLast();
  // A failed settlement concerns the operator, not the client.
  else settled.then(writeLast, writeLast);
}

function asInterruption(failure: UpstreamFailure): UpstreamFailure | null {
  return failure.class === "reset" || failure.class === "timeout" ? failure : null;
}
