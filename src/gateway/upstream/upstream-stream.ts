/**
 * One upstream stream, opened and then flowing. Opening waits for the first content, holding life-cycle
 * events back: until then the client has nothing and another account may take over.
 */

import { classifyError, type UpstreamFailure, upstreamFailure } from "../../accounts/failure.ts";
import type { Deadline, Deadlines } from "../../net/wire/deadlines.ts";
import { type Part, partsLength, wholeBytesPart, wholePart } from "../../net/wire/parts.ts";
import type { StreamReader } from "../../protocols/shared/stream.ts";
import { openEventFlow } from "./event-flow.ts";
import type { StreamIntake, UpstreamLine } from "./send-request.ts";

export type UpstreamStreamStep =
  | { kind: "events"; parts: readonly Part[] }
  /** The stream is complete; `parts` is what is left to write before the terminal event. */
  | { kind: "end"; parts: readonly Part[]; terminal: readonly Part[] }
  | { kind: "broken"; parts: readonly Part[]; failure: UpstreamFailure };

export interface UpstreamStream {
  readonly reader: StreamReader;
  /**
   * Hands over what was held back, then every step as it comes: whole events, never nothing. `end` or `broken` is
   * the last. To be called once.
   */
  flowTo(take: (step: UpstreamStreamStep) => void): void;
  /** What has been read already may still come. */
  pause(): void;
  resume(): void;
  /** When the last data event came. Comments do not count. */
  lastDataMs(): number;
  /** After the end: until the upstream has closed its side too, a moment later; null when it has. */
  closing(): Promise<void> | null;
  /** Ends the upstream's work: the stream is then `broken` by this failure, unless it is over. */
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
  /** Life-cycle events are held back no longer than this. */
  holdMs: number;
  monotonicMs(): number;
}

const NOTHING: readonly Part[] = [];
/** An answer that is complete is read to its end, so that its connection can carry the next request. */
const LINGER_MS = 2_000;
const LINGER_CHUNKS_MAX = 16;
/** How much a stream may bring before anybody takes it. */
const HELD_BYTES_MAX = 64 * 1024;

/** `opened` hears once of a stream that has something to say, or of the reason why there will be none. */
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
  /** The last step, when it came before anybody took it. */
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

  function tell(step: UpstreamStreamStep, hasContent: boolean): void {
    if (isOpen) {
      if (take !== null) take(step);
      else hold(step);
      return;
    }
    // Broken before any content: nothing was delivered, so it is as if it had failed at once.
    if (step.kind === "broken" && !hasContent) refuse(step.failure);
    // A complete answer with nothing in it is a refusal in disguise: another account may answer.
    else if (step.kind === "end" && !hasContent && reader.usage?.outputTokens === 0) {
      refuse(upstreamFailure("bad_answer", "an empty answer"));
    } else {
      hold(step);
      if (step.kind !== "events" || hasContent) open();
    }
  }

  function finish(step: UpstreamStreamStep, hasContent: boolean): void {
    isOver = true;
    tell(step, hasContent);
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

  function ending(how: "closed" | "broke off", failure: UpstreamFailure): void {
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
    flowTo(taker) {
      take = taker;
      const parts = held;
      held = [];
      if (heldBytes > HELD_BYTES_MAX) line.resume();
      heldBytes = 0;
      if (heldEnd !== null) taker({ ...heldEnd, parts: [...parts, ...heldEnd.parts] });
      else if (parts.length > 0) taker({ kind: "events", parts });
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
        // Chat ends with the mark itself; other families may want one after their terminal event.
        const terminal = withDone(step.terminal, reader.done);
        finish({ kind: "end", parts: step.parts, terminal }, step.hasContent);
        // A stream that was refused is closed already.
        if (isOpen && !isClosed) linger();
      } else if (step.parts.length > 0) tell({ kind: "events", parts: step.parts }, step.hasContent);
    },
    end: () => ending("closed", upstreamFailure("reset", "the stream ended early")),
    broke: (failure) => ending("broke off", failure),
  };
}

function withDone(terminal: readonly Part[], done: Uint8Array | null): readonly Part[] {
  return done === null || terminal[0]?.bytes === done ? terminal : [...terminal, wholeBytesPart(done)];
}
