/**
 * How the simulator counts. A quarter of the bytes costs nothing, and serves wherever a count need only be a count.
 * With "o200k" it counts what a real model would, so that books kept by a tokenizer can be held against its ledger.
 */

import { isRecord, type JsonFields, parseJson } from "./json-fields.ts";
import { cutToBytes, prefixOf } from "./text.ts";

export interface TokenRule {
  /** Texts that do not follow on each other. */
  ofTexts(texts: readonly string[]): number;
  ofPrompt(fields: JsonFields): number;
  /** The beginning of a text that has at most so many. */
  cut(text: string, tokens: number): string;
  openTally(): Tally;
  /** Settled when it can count; null when it always could. */
  readonly ready: Promise<unknown> | null;
}

/** Model output in one event. A picture has bytes alone. */
export interface Said {
  said: string;
  outputBytes: number;
  /** Texts of one lane follow on each other. */
  lane: number;
}

/** What a stream has really said so far. */
export interface Tally {
  add(event: Said): void;
  tokens(): number;
}

const BYTES_PER_TOKEN = 4;
/** What stands in the prompt, in the fields of either interface. */
const PROMPT_FIELDS = ["messages", "input", "instructions", "tools", "functions"] as const;

function tokensOfBytes(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_TOKEN);
}

/** Rounded once over all of it, so that counting the events of a stream comes to the same figure. */
export const BYTE_RULE: TokenRule = {
  ofTexts: (texts) => tokensOfBytes(texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0)),
  ofPrompt(fields) {
    let chars = 0;
    for (const name of PROMPT_FIELDS) {
      const slice = fields.get(name);
      if (slice !== undefined && slice !== "null") chars += slice.length;
    }
    return tokensOfBytes(chars);
  },
  cut: (text, tokens) => cutToBytes(text, tokens * BYTES_PER_TOKEN),
  openTally() {
    let bytes = 0;
    return {
      add: (event) => {
        bytes += event.outputBytes;
      },
      tokens: () => tokensOfBytes(bytes),
    };
  },
  ready: null,
};

/** Sentences counted before: all but the question's own words are always the same few. */
const REMEMBERED_MAX = 5_000;
const REMEMBERED_CHARS_MAX = 1_000;
/** Before the space after a full stop: a tokenizer parts the text there anyway. */
const SENTENCE = /(?<=\S\.)(?= \p{L})/u;
const TALLY_CHARS_MAX = 32 * 1024;

export function createExactRule(): TokenRule {
  let countTokens: ((text: string) => number) | null = null;
  const remembered = new Map<string, number>();
  const ready = import("gpt-tokenizer/encoding/o200k_base").then((o200k) => {
    countTokens = (text) => o200k.countTokens(text, { disallowedSpecial: new Set() });
  });

  function ofSentence(text: string): number {
    const known = remembered.get(text);
    if (known !== undefined) return known;
    if (countTokens === null) throw new Error("the simulator was asked to count before it could");
    const tokens = countTokens(text);
    if (text.length > REMEMBERED_CHARS_MAX) return tokens;
    if (remembered.size >= REMEMBERED_MAX) remembered.clear();
    remembered.set(text, tokens);
    return tokens;
  }

  function ofText(text: string): number {
    if (text === "") return 0;
    return text.split(SENTENCE).reduce((sum, sentence) => sum + ofSentence(sentence), 0);
  }

  return {
    ofTexts: (texts) => texts.reduce((sum, text) => sum + ofText(text), 0),
    ofPrompt: (fields) => exactPrompt(fields, ofText),
    cut: (text, tokens) => cutToTokens(text, tokens, ofText),
    openTally: () => exactTally(ofText),
    ready,
  };
}

function cutToTokens(text: string, tokens: number, ofText: (text: string) => number): string {
  // No token is shorter than a byte.
  if (text.length * 3 <= tokens || Buffer.byteLength(text) <= tokens || ofText(text) <= tokens) return text;
  let fits = 0;
  let over = text.length;
  while (over - fits > 1) {
    const middle = Math.floor((fits + over) / 2);
    if (ofText(prefixOf(text, middle)) <= tokens) fits = middle;
    else over = middle;
  }
  return prefixOf(text, fits);
}

/** Counts in between, so that an endless stream is not kept. */
function exactTally(ofText: (text: string) => number): Tally {
  const lanes = new Map<number, string>();
  let counted = 0;
  let fixedBytes = 0;
  return {
    add(event) {
      if (event.said === "") {
        fixedBytes += event.outputBytes;
        return;
      }
      let text = (lanes.get(event.lane) ?? "") + event.said;
      if (text.length > TALLY_CHARS_MAX) {
        const cut = /\S(?= \p{L}\S* ?\S*$)/u.exec(text.slice(-200));
        const at = text.length - 200 + (cut === null ? 0 : cut.index + 1);
        counted += ofText(text.slice(0, at));
        text = text.slice(at);
      }
      lanes.set(event.lane, text);
    },
    tokens() {
      let sum = counted + tokensOfBytes(fixedBytes);
      for (const text of lanes.values()) sum += ofText(text);
      return sum;
    },
  };
}

/** As OpenAI documents it: the texts, four tokens around each message, three for the reply; tools as JSON. */
function exactPrompt(fields: JsonFields, ofText: (text: string) => number): number {
  let tokens = 3;
  for (const name of ["messages", "input", "instructions"]) {
    const value = parseJson(fields.get(name) ?? "null");
    if (typeof value === "string") tokens += 4 + ofText(value);
    if (Array.isArray(value)) for (const turn of value) tokens += 4 + wordsIn(turn, ofText);
  }
  for (const name of ["tools", "functions"]) {
    const value = parseJson(fields.get(name) ?? "null");
    if (Array.isArray(value)) tokens += ofText(JSON.stringify(value));
  }
  return tokens;
}

const WRAPPING: ReadonlySet<string> = new Set([
  "type",
  "role",
  "id",
  "status",
  "call_id",
  "tool_call_id",
  "detail",
]);
const PICTURE_TOKENS = 1_000;

function wordsIn(value: unknown, ofText: (text: string) => number): number {
  if (typeof value === "string") return ofText(value);
  if (Array.isArray(value)) return value.reduce<number>((sum, one) => sum + wordsIn(one, ofText), 0);
  if (!isRecord(value)) return 0;
  let tokens = 0;
  for (const [key, member] of Object.entries(value)) {
    if (WRAPPING.has(key)) continue;
    tokens += key === "image_url" ? PICTURE_TOKENS : wordsIn(member, ofText);
  }
  return tokens;
}
