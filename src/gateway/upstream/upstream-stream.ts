/**
 * One upstream stream: opening it, then flowing. Opening waits for the first content and holds lifecycle events back:
 * until then the client has received nothing, and dispatch can fail over to another account.
 */

import { classifyError } from "../../accounts/classify-error.ts";
import { type UpstreamFailure, upstreamFailure } from "../../accounts/failure.ts";
import type { Deadline, Deadlines } from "../../base/deadlines.ts";
import { nextTurn } from "../../base/next-turn.ts";
import { type Part, partsLength, wholeBytesPart, wholePart } from "../../base/parts.ts";
import type { Backpressure, BodySink } from "../../net/wire/body-sink.ts";
import type { StreamReader } from "../../protocols/shared/stream.ts";
import { type EventFlow, type FlowStep, openEventFlow } from "./event-flow.ts";
import type { StreamCall } from "./upstream-call.ts";

/** Receives whole events, never an empty piece. */
export type EventSink = BodySink<readonly Part[], UpstreamFailure, StreamTail>;

/** The end of a complete stream. */
export interface StreamTail {
  /** The last events before the terminal one; may be empty. */
  readonly events: readonly Part[];
  readonly terminal: readonly Part[];
}

export type OpenedStream =
  | { kind: "open"; stream: UpstreamStream }
  | { kind: "failed"; failure: UpstreamFailure };

export interface UpstreamStreamOptions {
  upstreamCall: StreamCall;
  reader: StreamReader;
  deadlines: Deadlines;
  eventBytesMax: number;
  /** The longest time that lifecycle events are held back. */
  holdMs: number;
  monotonicMs(): number;
  /** The thread begins to work on a piece of the stream. */
  enterTurn(): void;
}

/** No content has arrived: a failure is invisible to the client. The deadline ends the wait for content. */
interface OpeningState {
  readonly kind: "opening";
  readonly deadline: Deadline;
}

/** The stream is complete. The rest of the response is read, so that the connection can be reused. */
interface LingeringState {
  readonly kind: "lingering";
  readonly deadline: Deadline;
  pieces: number;
  onClosed: (() => void) | null;
}

type State =
  | OpeningState
  | { readonly kind: "flowing" }
  /** The sink does not keep up, or too many events are held for a sink that is not there yet. */
  | { readonly kind: "paused" }
  | LingeringState
  | { readonly kind: "closed" };

const FLOWING: State = { kind: "flowing" };
const PAUSED: State = { kind: "paused" };
const CLOSED: State = { kind: "closed" };

const NOTHING: readonly Part[] = [];
type NewEvents = Pick<FlowStep, "parts" | "hasContent">;
const NO_EVENTS: NewEvents = { parts: [], hasContent: false };
const LINGER_MS = 2_000;
const LINGER_PIECES_MAX = 16;
/** How many bytes are held before the stream has a sink. Above it, reading is paused. */
const HELD_BYTES_MAX = 64 * 1024;
/** Read before the next turn of the event loop. Short events cost most: this many bytes of them take several milliseconds. */
const TURN_BYTES_MAX = 64 * 1024;

export class UpstreamStream implements BodySink<Part, UpstreamFailure>, Backpressure {
  readonly reader: StreamReader;
  /** The time of the last data event. Comments do not count. */
  lastDataMs: number;
  /** The time of the first event with content; null until then. */
  firstContentMs: number | null = null;
  /** How many data events have arrived. */
  dataEvents = 0;
  readonly #options: UpstreamStreamOptions;
  readonly #call: StreamCall;
  readonly #onOpened: (result: OpenedStream) => void;
  readonly #flow: EventFlow;
  readonly #held = new HeldEvents();
  #sink: EventSink = this.#held;
  #state: State;
  /** The bytes that were read since the stream last left the event loop to others. */
  #turnBytes = 0;

  /** `onOpened` is called once: with a stream that has content, or with the failure. */
  constructor(options: UpstreamStreamOptions, onOpened: (result: OpenedStream) => void) {
    const { upstreamCall, reader, deadlines, eventBytesMax, holdMs, monotonicMs } = options;
    this.reader = reader;
    this.lastDataMs = monotonicMs();
    this.#options = options;
    this.#call = upstreamCall;
    this.#onOpened = onOpened;
    this.#flow = openEventFlow(reader, eventBytesMax);
    this.#state = { kind: "opening", deadline: deadlines.set(holdMs, () => this.#open()) };
  }

  /** Delivers the events that were held back, then every event as it arrives. Call it once. */
  flowTo(sink: EventSink): void {
    this.#sink = sink;
    if (this.#is("paused")) this.#state = FLOWING;
    this.#held.flowTo(sink);
    // Not earlier: the call may deliver new events at once, and they must not overtake the held ones.
    if (this.#is("flowing")) this.#call.resume();
  }

  pause(): void {
    if (!this.#is("flowing")) return;
    this.#state = PAUSED;
    this.#call.pause();
  }

  resume(): void {
    if (!this.#is("paused")) return;
    this.#state = FLOWING;
    this.#call.resume();
  }

  /** Aborts the upstream request, unless the stream is complete. */
  abort(): void {
    if (!this.#is("flowing") && !this.#is("paused")) return;
    this.#state = CLOSED;
    this.#call.abort();
  }

  /** After the end: resolves when the upstream has closed its side too; null if it has. */
  closing(): Promise<void> | null {
    const state = this.#state;
    if (state.kind !== "lingering") return null;
    return new Promise((resolve) => {
      state.onClosed = resolve;
    });
  }

  data(piece: Part): void {
    this.#options.enterTurn();
    const state = this.#state;
    if (state.kind === "closed") return;
    if (state.kind === "lingering") {
      this.#discard(state);
      return;
    }
    const step = this.#flow.take(piece);
    this.#spendTurn(piece.end - piece.start);
    if (step.dataEvents > 0) this.lastDataMs = this.#options.monotonicMs();
    this.dataEvents += step.dataEvents;
    if (step.hasContent) this.firstContentMs ??= this.lastDataMs;
    if (step.error !== null || step.isTooLarge) {
      this.#call.abort();
      this.#break(readFailure(step), step);
    } else if (step.terminal !== null) {
      const terminal = withEndMarker(step.terminal, this.reader.endMarker);
      const isRejected = !step.hasContent && this.#rejectEmpty();
      if (!isRejected) this.#complete({ events: step.parts, terminal }, this.#startLingering());
    } else if (step.parts.length > 0) this.#forward(step);
  }

  /** The upstream closed the response. */
  end(): void {
    this.#handleClose("closed", upstreamFailure("reset", "the stream ended early"));
  }

  fail(failure: UpstreamFailure): void {
    this.#handleClose("broke off", failure);
  }

  /** A stream that arrives fast leaves the event loop to other requests from time to time. */
  #spendTurn(bytes: number): void {
    this.#turnBytes += bytes;
    if (this.#turnBytes < TURN_BYTES_MAX) return;
    this.#turnBytes = 0;
    this.#call.pause();
    void nextTurn().then(() => {
      if (!this.#is("paused") && !this.#is("closed")) this.#call.resume();
    });
  }

  /** A method, because a call of the sink can change the state, which the compiler does not see. */
  #is(kind: State["kind"]): boolean {
    return this.#state.kind === kind;
  }

  #forward({ parts, hasContent }: FlowStep): void {
    this.#sink.data(parts);
    if (!this.#is("opening")) {
      if (this.#held.bytes > HELD_BYTES_MAX) this.pause();
    } else if (hasContent) this.#open();
  }

  #handleClose(how: "closed" | "broke off", failure: UpstreamFailure): void {
    const state = this.#state;
    if (state.kind === "closed") return;
    if (state.kind === "lingering") this.#stopLingering(state);
    else if (this.reader.isCompleteWithoutTerminal(how)) {
      const { endMarker } = this.reader;
      const terminal = endMarker === null ? NOTHING : wholePart(endMarker);
      if (!this.#rejectEmpty()) this.#complete({ events: NOTHING, terminal }, CLOSED);
    } else this.#break(failure, NO_EVENTS);
  }

  /** Returns true for a complete response without output. It is a failure, so that dispatch can fail over. */
  #rejectEmpty(): boolean {
    const state = this.#state;
    if (state.kind !== "opening" || this.reader.usage?.outputTokens !== 0) return false;
    if (this.reader.mayBeEmpty === true) return false;
    this.#reject(state, upstreamFailure("bad_answer", "an empty response"));
    return true;
  }

  #complete(tail: StreamTail, next: State): void {
    const before = this.#state;
    // Before the sink is called, because it releases the account when the upstream has closed.
    this.#state = next;
    this.#sink.end(tail);
    if (before.kind === "opening") this.#announceOpen(before);
  }

  #break(failure: UpstreamFailure, { parts, hasContent }: NewEvents): void {
    const before = this.#state;
    // Nothing was delivered, so dispatch can fail over.
    if (before.kind === "opening" && !hasContent) {
      this.#reject(before, failure);
      return;
    }
    this.#state = CLOSED;
    if (parts.length > 0) this.#sink.data(parts);
    this.#sink.fail(failure);
    if (before.kind === "opening") this.#announceOpen(before);
  }

  /** Content has arrived, or the wait for it has timed out. */
  #open(): void {
    const before = this.#state;
    if (before.kind !== "opening") return;
    this.#state = FLOWING;
    this.#announceOpen(before);
  }

  #announceOpen({ deadline }: OpeningState): void {
    this.#options.deadlines.cancel(deadline);
    this.#call.stopWatching();
    this.#onOpened({ kind: "open", stream: this });
  }

  #reject({ deadline }: OpeningState, failure: UpstreamFailure): void {
    this.#options.deadlines.cancel(deadline);
    this.#state = CLOSED;
    this.#call.abort();
    this.#onOpened({ kind: "failed", failure });
  }

  #startLingering(): LingeringState {
    const deadline = this.#options.deadlines.set(LINGER_MS, () => this.#abortLingering(state));
    const state: LingeringState = { kind: "lingering", deadline, pieces: 0, onClosed: null };
    return state;
  }

  #discard(state: LingeringState): void {
    if (++state.pieces > LINGER_PIECES_MAX) this.#abortLingering(state);
  }

  #abortLingering(state: LingeringState): void {
    this.#call.abort();
    this.#stopLingering(state);
  }

  #stopLingering({ deadline, onClosed }: LingeringState): void {
    this.#state = CLOSED;
    this.#options.deadlines.cancel(deadline);
    onClosed?.();
  }
}

/** Holds events until the stream has a sink. */
class HeldEvents implements EventSink {
  bytes = 0;
  #parts: Part[] = [];
  #last: { kind: "end"; tail: StreamTail } | { kind: "failed"; failure: UpstreamFailure } | null = null;

  data(parts: readonly Part[]): void {
    this.#parts.push(...parts);
    this.bytes += partsLength(parts);
  }

  end(tail: StreamTail): void {
    this.#last = { kind: "end", tail };
  }

  fail(failure: UpstreamFailure): void {
    this.#last = { kind: "failed", failure };
  }

  flowTo(sink: EventSink): void {
    const parts = this.#parts;
    const last = this.#last;
    this.#parts = [];
    this.bytes = 0;
    if (last?.kind === "end") {
      const { events, terminal } = last.tail;
      sink.end({ events: [...parts, ...events], terminal });
      return;
    }
    if (parts.length > 0) sink.data(parts);
    if (last !== null) sink.fail(last.failure);
  }
}

function readFailure({ isTooLarge, error }: FlowStep): UpstreamFailure {
  return isTooLarge
    ? upstreamFailure("too_large", "an event was larger than allowed")
    : classifyError(200, error, null);
}

/** In Chat Completions the terminal event is the end marker. Others may need one after theirs. */
function withEndMarker(terminal: readonly Part[], endMarker: Uint8Array | null): readonly Part[] {
  return endMarker === null || terminal[0]?.bytes === endMarker
    ? terminal
    : [...terminal, wholeBytesPart(endMarker)];
}
