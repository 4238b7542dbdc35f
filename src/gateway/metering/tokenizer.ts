/**
 * Counts tokens as o200k_base does. The vocabulary (about 50 MB) is loaded at the first count and stays in memory. It
 * is read from the package's data in small steps, because the package's own modules block the event loop for half a
 * second.
 */

import vocabularyFile from "gpt-tokenizer/data/o200k_base.tiktoken" with { type: "file" };
import { O200K_TOKEN_SPLIT_REGEX } from "gpt-tokenizer/encodingParams/constants";
import { Cache } from "../../base/cache.ts";
import { countWordTokens, type Vocabulary, vocabularyBytes } from "./byte-pairs.ts";
import { safeCut } from "./safe-cut.ts";

export interface Tokenizer {
  count(text: string): number;
}

/**
 * Merging takes quadratic time in the length of an unbroken run, so a text is counted in slices. They end where the
 * tokenizer splits the text anyway, except for runs longer than a slice.
 */
const SLICE_CHARS = 512;
const CACHED_WORDS_MAX = 20_000;
const CACHED_WORD_CHARS_MAX = 64;
/** A step takes about a millisecond. */
const LINES_PER_STEP = 2_000;

let loaded: Tokenizer | null = null;
let loading: Promise<Tokenizer> | null = null;

/** Null until `loadTokenizer` has finished. */
export function tokenizerIfLoaded(): Tokenizer | null {
  return loaded;
}

export function loadTokenizer(): Promise<Tokenizer> {
  loading ??= readVocabulary().then(
    (vocabulary) => {
      loaded = createTokenizer(vocabulary);
      return loaded;
    },
    (error: unknown) => {
      loading = null;
      throw error;
    },
  );
  return loading;
}

function createTokenizer(vocabulary: Vocabulary): Tokenizer {
  /** Words of more than one token: most of them occur again. */
  const tokensByWord = new Cache<string, number>({ name: "tokens by word", entriesMax: CACHED_WORDS_MAX });

  function countWord(word: string, isAscii: boolean): number {
    const cached = tokensByWord.get(word);
    if (cached !== undefined) return cached;
    const tokens = countWordTokens(isAscii ? word : vocabularyBytes(word), vocabulary);
    if (word.length <= CACHED_WORD_CHARS_MAX) tokensByWord.set(word, tokens);
    return tokens;
  }

  function countSlice(slice: string): number {
    const isAscii = !/[^\0-\x7f]/.test(slice);
    let tokens = 0;
    for (const word of slice.match(O200K_TOKEN_SPLIT_REGEX) ?? []) {
      tokens += isAscii && vocabulary.has(word) ? 1 : countWord(word, isAscii);
    }
    return tokens;
  }

  return {
    count(text) {
      let tokens = 0;
      for (let from = 0; from < text.length; ) {
        const to = from + SLICE_CHARS < text.length ? safeCut(text, from, from + SLICE_CHARS) : text.length;
        tokens += countSlice(text.slice(from, to));
        from = to;
      }
      return tokens;
    },
  };
}

/** Each line has a token in base64 and its rank, ordered by rank. */
async function readVocabulary(): Promise<Vocabulary> {
  const data = await Bun.file(vocabularyFile).bytes();
  const vocabulary = new Map<string, number>();
  const view = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  for (let at = 0; at < view.length; ) {
    const space = view.indexOf(0x20, at);
    if (space === -1) break;
    vocabulary.set(
      Buffer.from(view.toString("latin1", at, space), "base64").toString("latin1"),
      vocabulary.size,
    );
    const end = view.indexOf(0x0a, space);
    at = end === -1 ? view.length : end + 1;
    if (vocabulary.size % LINES_PER_STEP === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  return vocabulary;
}
