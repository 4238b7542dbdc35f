/**
 * Upstream chunks → what to write to the client. Events that need no change and arrived together leave as
 * one piece of the array they came in; an event is never split over two writes.
 */

import type { StreamReader } from "../interfaces/stream.ts";
import type { UpstreamError } from "../interfaces/upstream-error.ts";
import { openSseSplitter } from "../wire/sse.ts";

export interface FlowStep {
  /** Whole events, in order, up to but not including the terminal one; empty if there is nothing to write. */
  bytes: Uint8Array;
  terminal: Uint8Array | null;
  failed: UpstreamError | null;
  hasContent: boolean;
  /** Data events seen, wanted or not: proof that the upstream is alive. */
  dataEvents: number;
  tooLarge: boolean;
}

export interface EventFlow {
  take(chunk: Uint8Array): FlowStep;
}

interface Piece {
  bytes: Uint8Array;
  start: number;
  end: number;
}

const NOTHING = new Uint8Array(0);

export function openEventFlow(reader: StreamReader, eventBytesMax: number): EventFlow {
  const splitter = openSseSplitter({ eventBytesMax });
  let pieces: Piece[] = [];
  let step: FlowStep;

  function onBlock(bytes: Uint8Array, start: number, end: number, kind: "event" | "comment"): void {
    // What follows a terminal event or an error is not part of the answer.
    if (kind === "comment" || step.terminal !== null || step.failed !== null) return;
    step.dataEvents++;
    const verdict = reader.read(bytes, start, end);
    switch (verdict.phase) {
      case "dropped":
        return;
      case "failed":
        step.failed = verdict.error;
        return;
      case "terminal":
        step.terminal = verdict.replacement ?? bytes.subarray(start, end + 2);
        return;
      case "content":
        step.hasContent = true;
        break;
      case "lifecycle":
        break;
    }
    if (verdict.replacement !== null) add(verdict.replacement, 0, verdict.replacement.length);
    else add(bytes, start, end + 2);
  }

  function add(bytes: Uint8Array, start: number, end: number): void {
    const last = pieces.at(-1);
    if (last && last.bytes === bytes && last.end === start) last.end = end;
    else pieces.push({ bytes, start, end });
  }

  return {
    take(chunk) {
      pieces = [];
      step = {
        bytes: NOTHING,
        terminal: null,
        failed: null,
        hasContent: false,
        dataEvents: 0,
        tooLarge: false,
      };
      step.tooLarge = !splitter.push(chunk, onBlock);
      step.bytes = join(pieces);
      return step;
    },
  };
}

function join(pieces: readonly Piece[]): Uint8Array {
  const [first] = pieces;
  if (!first) return NOTHING;
  if (pieces.length === 1) {
    const isWhole = first.start === 0 && first.end === first.bytes.length;
    return isWhole ? first.bytes : first.bytes.subarray(first.start, first.end);
  }
  return Buffer.concat(pieces.map((piece) => piece.bytes.subarray(piece.start, piece.end)));
}
