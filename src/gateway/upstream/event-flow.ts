/**
 * Turns upstream chunks into the parts to write to the client, without copying. Adjacent events that need no change are
 * one part; an event is never split over two writes.
 */

import type { Part } from "../../base/parts.ts";
import { responseBounds } from "../../count-limits.ts";
import { SseSplitter } from "../../net/wire/sse.ts";
import { findEventFault, PARSED_EVENT } from "../../protocols/shared/event-bounds.ts";
import type { StreamReader } from "../../protocols/shared/stream.ts";
import { outOfBoundsError, type UpstreamError } from "../../protocols/shared/upstream-error.ts";

export interface FlowStep {
  /** Whole events in order, up to but excluding the terminal one; empty if there is nothing to write. */
  parts: Part[];
  terminal: readonly Part[] | null;
  error: UpstreamError | null;
  hasContent: boolean;
  /** The number of data events, forwarded or not: proof that the upstream is alive. */
  dataEvents: number;
  isTooLarge: boolean;
}

export interface EventFlow {
  take(chunk: Part): FlowStep;
}

export function openEventFlow(reader: StreamReader, eventBytesMax: number): EventFlow {
  const splitter = new SseSplitter({ eventBytesMax, eventLinesMax: responseBounds.eventLinesMax });
  let step: FlowStep;

  function onBlock(bytes: Uint8Array, start: number, end: number, kind: "event" | "comment"): void {
    // Events after a terminal event or an error are not part of the response.
    if (kind === "comment" || step.terminal !== null || step.error !== null) return;
    step.dataEvents++;
    const fault = findEventFault({ bytes, start, end }, reader.eventBounds ?? PARSED_EVENT);
    if (fault !== null) {
      step.error = outOfBoundsError(fault);
      return;
    }
    const verdict = reader.read(bytes, start, end);
    switch (verdict.phase) {
      case "dropped":
        return;
      case "failed":
        step.error = verdict.error;
        return;
      case "terminal":
        step.terminal = verdict.replacement ?? [{ bytes, start, end: end + 2 }];
        return;
      case "content":
        step.hasContent = true;
        break;
      case "lifecycle":
        break;
    }
    if (verdict.replacement === null) forward(step.parts, bytes, start, end + 2);
    else for (const part of verdict.replacement) step.parts.push(part);
  }

  return {
    take(chunk) {
      step = {
        parts: [],
        terminal: null,
        error: null,
        hasContent: false,
        dataEvents: 0,
        isTooLarge: false,
      };
      step.isTooLarge = !splitter.push(chunk, onBlock);
      return step;
    },
  };
}

function forward(parts: Part[], bytes: Uint8Array, start: number, end: number): void {
  const last = parts.at(-1);
  if (last?.bytes !== bytes || last.end !== start) parts.push({ bytes, start, end });
  else parts[parts.length - 1] = { bytes, start: last.start, end };
}
