/**
 * One upstream stream: opening it, then flowing. Opening waits for the first content and holds lifecycle events back:
 * until then the client has received nothing, and dispatch can fail over to another account.
 */

import { classifyError, type UpstreamFailure, upstreamFailure } from "../../accounts/failure.ts";
import type { Deadline, Deadlines } from "../../net/wire/deadlines.ts";
import { type Part, partsLength, wholeBytesPart, wholePart } from "../../net/wire/parts.ts";
import type { StreamReader } from "../../protocols/shared/stream.ts";
import { openEventFlow } from "./event-flow.ts";
import type { StreamIntake, UpstreamLine } from "./send-request.ts";

export type UpstreamStreamStep =
  | { kind: "events"; parts: readonly Part[] }
  /** The stream is complete. `parts` is what must be written before the terminal event. */
  | { kind: "end"; parts: readonly Part[]; terminal: readonly Part[] }
  | { kind: "broken"; parts: readonly Part[]; failure: UpstreamFailure };

export interface UpstreamStream {
  readonly reader: StreamReader;
  /**
   * Delivers the events that were held back, then every step as it arrives: whole events, never an empty step. The last
   * step is `end` or `broken`. Call it once.
   */
  flowTo(take: (step: UpstreamStreamStep) => void): void;
  /** Stops reading. Data that is already read may still be delivered. */
  pause(): void;
  resume(): void;
  /** The time of the last data event. Comments do not count. */
  lastDataMs(): number;
  /** After the end: resolves when the upstream has closed its side too; null if it has. */
  closing(): Promise<void> | null;
  /** Aborts the upstream request. The stream is then `broken` by this failure, unless it has ended. */
  abort(failure: UpstreamFailure): void;
}

export type OpenedStream =
  | { kind: "open"; stream: UpstreamStream }
  | { kind: "failed"; failure: UpstreamFailure };

export interface UpstreamStreamOptions {
  line: UpstreamLine;
  reader: StreamReader;
  alarms: Deadlines;
  eventBytesMax: number;
  /** The longest time that lifecycle events are held back. */
  holdMs: number;
  monotonicMs(): number;
}

const NOTHING: readonly Part[] = [];
/** After the terminal event the connection is read for at most this long, so that it can be reused. */
const LINGER_MS = 2_000;
const LINGER_CHUNKS_MAX = 16;
/** How many bytes are buffered before the stream has a consumer. Above it, reading is paused. */
const HELD_BYTES_MAX = 64 * 1024;

/** `opened` is called once: with a stream that has content, or with the failure. */
export function openUpstreamStream(
  options: UpstreamStreamOptions,
  opened: (result: OpenedStream) => void,
): StreamIntake {
  const { line, reader, alarms, monotonicMs } = options;
  const flow = openEventFlow(reader, options.eventBytesMax);
  let lastDataMs = monotonicMs();
  let isOpen = false;
  let take: ((step: UpstreamStreamStep) => void) | null = null;
  let held: Part[] = [];
  let heldBytes = 0;
  /** The last step, if it arrives before the stream has a consumer. */
  let heldEnd: UpstreamStreamStep | null = null;
  let isOver = false;
  let isClosed = false;
  let lingerChunks = 0;
  let onClosed: (() => void) | null = null;
  let alarm: Deadline | null = alarms.set(options.holdMs, () => {
    alarm = null;
    open();
  });

  function open(): void {
    if (alarm !== null) alarms.cancel(alarm);
    alarm = null;
    isOpen = true;
    line.stopWatching();
    opened({ kind: "open", stream });
  }

  function refuse(failure: UpstreamFailure): void {
    if (alarm !== null) alarms.cancel(alarm);
    isOver = true;
    line.hangUp();
    opened({ kind: "failed", failure });
  }

  function hold(step: UpstreamStreamStep): void {
    if (step.kind !== "events") heldEnd = step;
    else {
      held.push(...step.parts);
      heldBytes += partsLength(step.parts);
      if (isOpen && heldBytes > HELD_BYTES_MAX) line.pause();
    }
  }

  function deliver(step: UpstreamStreamStep, hasContent: boolean): void {
    if (isOpen) {
      if (take !== null) take(step);
      else hold(step);
      return;
    }
    // Broken before any content: nothing was delivered, so dispatch can fail over.
    if (step.kind === "broken" && !hasContent) refuse(step.failure);
    // A complete response without output is treated as a failure, so that dispatch can fail over.
    else if (step.kind === "end" && !hasContent && reader.usage?.outputTokens === 0) {
      refuse(upstreamFailure("bad_answer", "an empty answer"));
    } else {
      hold(step);
      if (step.kind !== "events" || hasContent) open();
    }
  }

  function finish(step: UpstreamStreamStep, hasContent: boolean): void {
    isOver = true;
    deliver(step, hasContent);
  }

  function linger(): void {
    alarm = alarms.set(LINGER_MS, () => {
      line.hangUp();
      closed();
    });
  }

  function closed(): void {
    isClosed = true;
    if (alarm !== null) alarms.cancel(alarm);
    alarm = null;
    onClosed?.();
  }

  function finishAtEnd(how: "closed" | "broke off", failure: UpstreamFailure): void {
    if (isOver) {
      closed();
      return;
    }
    isClosed = true;
    if (reader.saidEverything(how)) {
      const terminal = reader.done === null ? NOTHING : wholePart(reader.done);
      finish({ kind: "end", parts: NOTHING, terminal }, false);
    } else {
      finish({ kind: "broken", parts: NOTHING, failure }, false);
    }
  }

  const stream: UpstreamStream = {
    reader,
    lastDataMs: () => lastDataMs,
    pause: () => line.pause(),
    resume: () => line.resume(),
    closing() {
      if (!isOver || isClosed) return null;
      return new Promise((resolve) => {
        onClosed = resolve;
      });
    },
    abort(failure) {
      if (isOver) return;
      line.hangUp();
      isClosed = true;
      finish({ kind: "broken", parts: NOTHING, failure }, false);
    },
    flowTo(consumer) {
      take = consumer;
      const parts = held;
      held = [];
      if (heldBytes > HELD_BYTES_MAX) line.resume();
      heldBytes = 0;
      if (heldEnd !== null) consumer({ ...heldEnd, parts: [...parts, ...heldEnd.parts] });
      else if (parts.length > 0) consumer({ kind: "events", parts });
    },
  };

  return {
    data(chunk) {
      if (isOver) {
        if (++lingerChunks > LINGER_CHUNKS_MAX) {
          line.hangUp();
          closed();
        }
        return;
      }
      const step = flow.take(chunk);
      if (step.dataEvents > 0) lastDataMs = monotonicMs();
      if (step.failed !== null || step.tooLarge) {
        line.hangUp();
        isClosed = true;
        const failure = step.tooLarge
          ? upstreamFailure("too_large", "an event was larger than allowed")
          : classifyError(200, step.failed, null);
        finish({ kind: "broken", parts: step.parts, failure }, step.hasContent);
      } else if (step.terminal !== null) {
        // In Chat Completions the terminal event is the end mark itself. Other interfaces may need one after their
        // terminal event.
        const terminal = withDone(step.terminal, reader.done);
        finish({ kind: "end", parts: step.parts, terminal }, step.hasContent);
        // A rejected stream is already closed.
        if (isOpen && !isClosed) linger();
      } else if (step.parts.length > 0) deliver({ kind: "events", parts: step.parts }, step.hasContent);
    },
    end: () => finishAtEnd("closed", upstreamFailure("reset", "the stream ended early")),
    broke: (failure) => finishAtEnd("broke off", failure),
  };
}

function withDone(terminal: readonly Part[], done: Uint8Array | null): readonly Part[] {
  return done === null || terminal[0]?.bytes === done ? terminal : [...terminal, wholeBytesPart(done)];
}
