/**
 * Counts the tokens of an answer from its pieces, for streams that end without usage: upstreams that tell none, cut
 * streams, clients that left. Most streams do tell, so a piece is only copied aside; text is counted when too much of
 * it has gathered or when somebody asks. The text as a whole is never kept.
 */

import { decodeText } from "../../net/wire/bytes.ts";
import type { TextSink } from "../../protocols/shared/stream.ts";
import type { CountedOutput } from "./counted-output.ts";
import { roughTokens } from "./rough-tokens.ts";
import { safeCut } from "./safe-cut.ts";
import { loadTokenizer, type Tokenizer, tokenizerIfLoaded } from "./tokenizer.ts";

export interface OutputCounter extends TextSink {
  /** At once and never waiting: what is counted already is exact, the rest is judged by its characters. */
  estimate(): number;
  /** The same, with the reasoning apart. */
  estimateShown(): CountedOutput;
  /** Exact but for cuts in very long words. Loads the tokenizer, if there is anything to count. */
  exact(): Promise<CountedOutput>;
}

/** About four thousand tokens: most answers end before that and never have to be counted. */
const PENDING_BYTES_MAX = 16 * 1024;
/** Kept behind when pending text is counted: where a text stops for now, its last word may go on. */
const TAIL_CHARS = 256;
/** Only a tokenizer that cannot be loaded lets so much gather; then the rough figure has to do. */
const UNCOUNTED_BYTES_MAX = 256 * 1024;
const LANES_MAX = 256;
const LANE_BYTES_FIRST = 512;
/** More lanes than any reader has. */
const NO_LANE = -(2 ** 31);
/** Stands between texts that do not belong together: no event of a stream can hold it. */
const BREAK = 0x0a;
const LONG_PIECE_BYTES = 64;

interface Lane {
  /** The insides of JSON strings, one after the other. */
  bytes: Uint8Array;
  length: number;
  /** Up to here it is in `rough`. */
  judged: number;
  rough: number;
}

export function openOutputCounter(): OutputCounter {
  /** Tokens of text that is no longer pending. A fraction where they could only be estimated. */
  let counted = 0;
  /** The part of `counted` that was reasoning. */
  let reasoned = 0;
  let pending = 0;
  const lanes = new Map<number, Lane>();
  let laneId = NO_LANE;
  let lane = openLane();

  function add(bytes: Uint8Array, start: number, end: number, id: number): void {
    if (id !== laneId) switchTo(id);
    append(lane, bytes, start, end);
    pending += end - start;
    if (pending > PENDING_BYTES_MAX) makeRoom();
  }

  function addWhole(bytes: Uint8Array, start: number, end: number, id: number): void {
    if (id !== laneId) switchTo(id);
    append(lane, BREAKS, 0, 1);
    append(lane, bytes, start, end);
    append(lane, BREAKS, 0, 1);
    pending += end - start + 2;
    if (pending > PENDING_BYTES_MAX) makeRoom();
  }

  function switchTo(id: number): void {
    if (lanes.size >= LANES_MAX) closeLanes();
    laneId = id;
    lane = lanes.get(id) ?? openLane();
    lanes.set(id, lane);
  }

  function makeRoom(): void {
    const tokenizer = tokenizerIfLoaded();
    if (tokenizer === null) {
      if (pending > UNCOUNTED_BYTES_MAX) closeLanes();
      else loadTokenizer().catch(() => {});
      return;
    }
    pending = 0;
    for (const [id, one] of lanes) {
      note(id, countMost(one, tokenizer));
      pending += one.length;
    }
    // Many lanes with a little each: their tails alone are too much to keep.
    if (pending > PENDING_BYTES_MAX / 2) closeLanes();
  }

  function closeLanes(): void {
    const tokenizer = tokenizerIfLoaded();
    for (const [id, one] of lanes) note(id, tokenizer === null ? judge(one) : countAll(one, tokenizer));
    lanes.clear();
    laneId = NO_LANE;
    pending = 0;
  }

  function note(id: number, tokens: number): void {
    counted += tokens;
    if (isReasoning(id)) reasoned += tokens;
  }

  return {
    add,
    addWhole,
    estimate() {
      let tokens = counted;
      for (const one of lanes.values()) tokens += judge(one);
      return Math.ceil(tokens);
    },
    estimateShown() {
      let output = counted;
      let reasoning = reasoned;
      for (const [id, one] of lanes) {
        const tokens = judge(one);
        output += tokens;
        if (isReasoning(id)) reasoning += tokens;
      }
      return { outputTokens: Math.ceil(output), reasoningTokens: Math.ceil(reasoning) };
    },
    async exact() {
      const tokenizer = pending === 0 ? null : await loadTokenizer();
      let output = counted;
      let reasoning = reasoned;
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

const BREAKS = Uint8Array.of(BREAK);

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

function judge(lane: Lane): number {
  lane.rough += roughTokens(lane.bytes, lane.judged, lane.length);
  lane.judged = lane.length;
  return lane.rough;
}

function countAll(lane: Lane, tokenizer: Tokenizer): number {
  return textsIn(lane).reduce((sum, text) => sum + tokenizer.count(text), 0);
}

/** All but the last words, which stay. */
function countMost(lane: Lane, tokenizer: Tokenizer): number {
  const texts = textsIn(lane);
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

function textsIn(lane: Lane): string[] {
  return decodeText(lane.bytes, 0, lane.length).split("\n").map(unescaped);
}

function unescaped(inside: string): string {
  if (!inside.includes("\\")) return inside;
  try {
    return String(JSON.parse(`"${inside}"`));
  } catch {
    // An escape that is none is the upstream's mistake, and only a few tokens off.
    return inside;
  }
}
