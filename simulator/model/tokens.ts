/**
 * Counts tokens. A quarter of the bytes costs nothing and is sufficient where the exact count does not matter. With
 * "o200k" the count is that of a real model, so that usage computed with a tokenizer can be compared with the ledger.
 */

import { isRecord, type JsonFields, parseJson } from "../json-fields.ts";
import { cutToBytes, takePrefix } from "./text.ts";

export interface TokenRule {
  /** Counts texts that are independent of each other. */
  ofTexts(texts: readonly string[]): number;
  ofPrompt(fields: JsonFields): number;
  /** Returns the start of a text with at most this many tokens. */
  cut(text: string, tokens: number): string;
  openTally(): Tally;
  /** Resolves when the rule can count; null when it always can. */
  readonly ready: Promise<unknown> | null;
}

/** Model output in one event. An image has only bytes. */
export interface TokenOutput {
  outputText: string;
  outputBytes: number;
  /** Texts of one lane are consecutive. */
  lane: number;
}

/** Counts what a stream has sent so far. */
export interface Tally {
  add(event: TokenOutput): void;
  tokens(): number;
}

const BYTES_PER_TOKEN = 4;
/** The fields of either interface that belong to the prompt. */
const PROMPT_FIELDS = ["system", "messages", "input", "instructions", "tools", "functions"] as const;

function bytesToTokens(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_TOKEN);
}

/** Rounds once over everything, so that counting the events of a stream gives the same number. */
export const BYTE_RULE: TokenRule = {
  ofTexts: (texts) => bytesToTokens(texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0)),
  ofPrompt(fields) {
    let chars = 0;
    for (const name of PROMPT_FIELDS) {
      const slice = fields.get(name);
      if (slice !== undefined && slice !== "null") chars += slice.length;
    }
    return bytesToTokens(chars);
  },
  cut: (text, tokens) => cutToBytes(text, tokens * BYTES_PER_TOKEN),
  openTally() {
    let bytes = 0;
    return {
      add: (event) => {
        bytes += event.outputBytes;
      },
      tokens: () => bytesToTokens(bytes),
    };
  },
  ready: null,
};

/** Limits of the cache of counted sentences: all sentences except the question's are always the same few. */
const CACHED_MAX = 5_000;
const CACHED_CHARS_MAX = 1_000;
/** Before the space after a full stop, where a tokenizer splits the text anyway. */
const SENTENCE = /(?<=\S\.)(?= \p{L})/u;
const TALLY_CHARS_MAX = 32 * 1024;

export function createExactRule(): TokenRule {
  let countTokens: ((text: string) => number) | null = null;
  const cachedCounts = new Map<string, number>();
  const ready = import("gpt-tokenizer/encoding/o200k_base").then((o200k) => {
    countTokens = (text) => o200k.countTokens(text, { disallowedSpecial: new Set() });
  });

  function countSentence(text: string): number {
    const cached = cachedCounts.get(text);
    if (cached !== undefined) return cached;
    if (countTokens === null) throw new Error("the simulator was asked to count before it could");
    const tokens = countTokens(text);
    if (text.length > CACHED_CHARS_MAX) return tokens;
    if (cachedCounts.size >= CACHED_MAX) cachedCounts.clear();
    cachedCounts.set(text, tokens);
    return tokens;
  }

  function countText(text: string): number {
    if (text === "") return 0;
    return text.split(SENTENCE).reduce((sum, sentence) => sum + countSentence(sentence), 0);
  }

  return {
    ofTexts: (texts) => texts.reduce((sum, text) => sum + countText(text), 0),
    ofPrompt: (fields) => exactPrompt(fields, countText),
    cut: (text, tokens) => cutToTokens(text, tokens, countText),
    openTally: () => exactTally(countText),
    ready,
  };
}

function cutToTokens(text: string, tokens: number, countText: (text: string) => number): string {
  // No token is shorter than a byte.
  if (text.length * 3 <= tokens || Buffer.byteLength(text) <= tokens || countText(text) <= tokens)
    return text;
  let fits = 0;
  let over = text.length;
  while (over - fits > 1) {
    const middle = Math.floor((fits + over) / 2);
    if (countText(takePrefix(text, middle)) <= tokens) fits = middle;
    else over = middle;
  }
  return takePrefix(text, fits);
}

/** Counts in between, so that an endless stream is not held in memory. */
function exactTally(countText: (text: string) => number): Tally {
  const lanes = new Map<number, string>();
  let counted = 0;
  let fixedBytes = 0;
  return {
    add(event) {
      if (event.outputText === "") {
        fixedBytes += event.outputBytes;
        return;
      }
      let text = (lanes.get(event.lane) ?? "") + event.outputText;
      if (text.length > TALLY_CHARS_MAX) {
        const cut = /\S(?= \p{L}\S* ?\S*$)/u.exec(text.slice(-200));
        const at = text.length - 200 + (cut === null ? 0 : cut.index + 1);
        counted += countText(text.slice(0, at));
        text = text.slice(at);
      }
      lanes.set(event.lane, text);
    },
    tokens() {
      let sum = counted + bytesToTokens(fixedBytes);
      for (const text of lanes.values()) sum += countText(text);
      return sum;
    },
  };
}

/** The count documented by OpenAI: the texts, four tokens per message, three for the reply; tools as JSON. */
function exactPrompt(fields: JsonFields, countText: (text: string) => number): number {
  let tokens = 3;
  for (const name of ["system", "messages", "input", "instructions"]) {
    const value = parseJson(fields.get(name) ?? "null");
    if (typeof value === "string") tokens += 4 + countText(value);
    if (Array.isArray(value)) for (const turn of value) tokens += 4 + countWords(turn, countText);
  }
  for (const name of ["tools", "functions"]) {
    const value = parseJson(fields.get(name) ?? "null");
    if (Array.isArray(value)) tokens += countText(JSON.stringify(value));
  }
  return tokens;
}

const UNCOUNTED_FIELDS: ReadonlySet<string> = new Set([
  "type",
  "role",
  "id",
  "status",
  "call_id",
  "tool_call_id",
  "detail",
]);
const IMAGE_TOKENS = 1_000;

function countWords(value: unknown, countText: (text: string) => number): number {
  if (typeof value === "string") return countText(value);
  if (Array.isArray(value)) return value.reduce<number>((sum, one) => sum + countWords(one, countText), 0);
  if (!isRecord(value)) return 0;
  let tokens = 0;
  for (const [key, member] of Object.entries(value)) {
    if (UNCOUNTED_FIELDS.has(key)) continue;
    tokens += key === "image_url" ? IMAGE_TOKENS : countWords(member, countText);
  }
  return tokens;
}
