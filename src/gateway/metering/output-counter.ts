/**
 * Counts the output tokens of a stream from its pieces, for streams that end without usage: upstreams that report none,
 * broken streams, clients that disconnect. Most streams do report usage, so a piece is only copied; text is counted
 * when the buffer is full or a count is requested. The whole text is never kept.
 */

import { decodeText } from "../../net/wire/bytes.ts";
import type { TextSink } from "../../protocols/shared/stream.ts";
import type { CountedOutput } from "./counted-output.ts";
import { roughTokens } from "./rough-tokens.ts";
import { safeCut } from "./safe-cut.ts";
import { loadTokenizer, type Tokenizer, tokenizerIfLoaded } from "./tokenizer.ts";

export interface OutputCounter extends TextSink {
  /** Synchronous: text that is already counted is exact, the rest is estimated from its characters. */
  estimate(): number;
  /** The same, with reasoning separately. */
  estimateShown(): CountedOutput;
  /** Exact except for cuts in very long words. Loads the tokenizer if there is anything to count. */
  exact(): Promise<CountedOutput>;
}

/** About four thousand tokens: most responses end before that and are never counted. */
const PENDING_BYTES_MAX = 16 * 1024;
/** Stays pending when the rest is counted, because the last word may continue. */
const TAIL_CHARS = 256;
/** This much accumulates only if the tokenizer cannot be loaded. Then the rough estimate is used. */
const UNCOUNTED_BYTES_MAX = 256 * 1024;
const LANES_MAX = 256;
const LANE_BYTES_FIRST = 512;
/** An id that no reader uses. */
const NO_LANE = -(2 ** 31);
/** Separates unrelated texts. A raw line feed cannot occur inside an event. */
const TEXT_BREAK = 0x0a;
const LONG_PIECE_BYTES = 64;

interface Lane {
  /** The contents of JSON strings, concatenated. */
  bytes: Uint8Array;
  length: number;
  /** The part up to here is included in `rough`. */
  judged: number;
  rough: number;
}

export function openOutputCounter(): OutputCounter {
  /** Tokens of text that is no longer pending. Fractional if they could only be estimated. */
  let counted = 0;
  /** The part of `counted` that is reasoning. */
  let countedReasoning = 0;
  let pending = 0;
  const lanes = new Map<number, Lane>();
  let laneId = NO_LANE;
  let lane = openLane();

  function add(bytes: Uint8Array, start: number, end: number, id: number): void {
    if (id !== laneId) switchTo(id);
    append(lane, bytes, start, end);
    pending += end - start;
    if (pending > PENDING_BYTES_MAX) countPending();
  }

  function addWhole(bytes: Uint8Array, start: number, end: number, id: number): void {
    if (id !== laneId) switchTo(id);
    append(lane, TEXT_BREAK_BYTES, 0, 1);
    append(lane, bytes, start, end);
    append(lane, TEXT_BREAK_BYTES, 0, 1);
    pending += end - start + 2;
    if (pending > PENDING_BYTES_MAX) countPending();
  }

  function switchTo(id: number): void {
    if (lanes.size >= LANES_MAX) closeLanes();
    laneId = id;
    lane = lanes.get(id) ?? openLane();
    lanes.set(id, lane);
  }

  function countPending(): void {
    const tokenizer = tokenizerIfLoaded();
    if (tokenizer === null) {
      if (pending > UNCOUNTED_BYTES_MAX) closeLanes();
      else loadTokenizer().catch(() => {});
      return;
    }
    pending = 0;
    for (const [id, one] of lanes) {
      addCounted(id, countMost(one, tokenizer));
      pending += one.length;
    }
    // Many lanes with little text each: their tails alone are too much to keep.
    if (pending > PENDING_BYTES_MAX / 2) closeLanes();
  }

  function closeLanes(): void {
    const tokenizer = tokenizerIfLoaded();
    for (const [id, one] of lanes)
      addCounted(id, tokenizer === null ? estimateLane(one) : countAll(one, tokenizer));
    lanes.clear();
    laneId = NO_LANE;
    pending = 0;
  }

  function addCounted(id: number, tokens: number): void {
    counted += tokens;
    if (isReasoning(id)) countedReasoning += tokens;
  }

  return {
    add,
    addWhole,
    estimate() {
      let tokens = counted;
      for (const one of lanes.values()) tokens += estimateLane(one);
      return Math.ceil(tokens);
    },
    estimateShown() {
      let output = counted;
      let reasoning = countedReasoning;
      for (const [id, one] of lanes) {
        const tokens = estimateLane(one);
        output += tokens;
        if (isReasoning(id)) reasoning += tokens;
      }
      return { outputTokens: Math.ceil(output), reasoningTokens: Math.ceil(reasoning) };
    },
    async exact() {
      const tokenizer = pending === 0 ? null : await loadTokenizer();
      let output = counted;
      let reasoning = countedReasoning;
      if (tokenizer !== null) {
        for (const [id, one] of lanes) {
          const tokens = countAll(one, tokenizer);
          output += tokens;
          if (isReasoning(id)) reasoning += tokens;
        }
      }
      return { outputTokens: Math.ceil(output), reasoningTokens: Math.ceil(reasoning) };
    },
  };
}

function isReasoning(lane: number): boolean {
  return lane < 0;
}

const TEXT_BREAK_BYTES = Uint8Array.of(TEXT_BREAK);

function openLane(): Lane {
  return { bytes: new Uint8Array(LANE_BYTES_FIRST), length: 0, judged: 0, rough: 0 };
}

function append(lane: Lane, bytes: Uint8Array, start: number, end: number): void {
  const length = lane.length + end - start;
  if (length > lane.bytes.length) {
    const grown = new Uint8Array(2 * length);
    grown.set(lane.bytes.subarray(0, lane.length));
    lane.bytes = grown;
  }
  if (end - start > LONG_PIECE_BYTES) lane.bytes.set(bytes.subarray(start, end), lane.length);
  else for (let from = start, to = lane.length; from < end; ) lane.bytes[to++] = bytes[from++] ?? 0;
  lane.length = length;
}

function estimateLane(lane: Lane): number {
  lane.rough += roughTokens(lane.bytes, lane.judged, lane.length);
  lane.judged = lane.length;
  return lane.rough;
}

function countAll(lane: Lane, tokenizer: Tokenizer): number {
  return decodeTexts(lane).reduce((sum, text) => sum + tokenizer.count(text), 0);
}

/** Counts all but the last words, which stay pending. */
function countMost(lane: Lane, tokenizer: Tokenizer): number {
  const texts = decodeTexts(lane);
  const last = texts.pop() ?? "";
  const cut =
    last.length <= TAIL_CHARS
      ? 0
      : safeCut(last, Math.max(0, last.length - 2 * TAIL_CHARS), last.length - TAIL_CHARS);
  texts.push(last.slice(0, cut));
  const rest = Buffer.from(JSON.stringify(last.slice(cut)).slice(1, -1));
  lane.length = 0;
  lane.judged = 0;
  lane.rough = 0;
  append(lane, rest, 0, rest.length);
  return texts.reduce((sum, text) => sum + tokenizer.count(text), 0);
}

function decodeTexts(lane: Lane): string[] {
  return decodeText(lane.bytes, 0, lane.length).split("\n").map(unescapeText);
}

function unescapeText(inside: string): string {
  if (!inside.includes("\\")) return inside;
  try {
    return String(JSON.parse(`"${inside}"`));
  } catch {
    // An invalid escape is the upstream's error and changes the count by only a few tokens.
    return inside;
  }
}
