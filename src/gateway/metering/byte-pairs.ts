/**
 * Counts the tokens of a word by byte-pair merging over a vocabulary. Bytes are strings with one character per byte,
 * because a Map looks strings up fast.
 */

/** Token → rank. Of two neighbours that can be merged, the pair with the lowest rank is merged first. */
export type Vocabulary = ReadonlyMap<string, number>;

const NO_RANK = -1;

/** The UTF-8 bytes of the word, one character per byte. */
export function vocabularyBytes(word: string): string {
  return Buffer.from(word, "utf8").toString("latin1");
}

export function countWordTokens(bytes: string, vocabulary: Vocabulary): number {
  if (bytes.length < 2 || vocabulary.has(bytes)) return bytes.length === 0 ? 0 : 1;
  return new Merging(bytes, vocabulary).countTokens();
}

/**
 * The parts of a word while neighbours are merged. A part is named by the position of its first byte. The pairs wait in
 * a heap, because a search of all pairs for each merge takes quadratic time.
 */
class Merging {
  readonly #bytes: string;
  readonly #vocabulary: Vocabulary;
  /** For each part: where it ends, which is where the next one begins. */
  readonly #ends: number[] = [];
  /** For each part: where the one before it begins. */
  readonly #previous: number[] = [];
  /** For each part: the rank of the part merged with the next one. */
  readonly #ranks: number[] = [];
  /** Pairs as `rank * length + position`, so that of two equal pairs the first is merged first. May be outdated. */
  readonly #pairs = new NumberHeap();

  constructor(bytes: string, vocabulary: Vocabulary) {
    this.#bytes = bytes;
    this.#vocabulary = vocabulary;
    for (let at = 0; at < bytes.length; at++) {
      this.#ends.push(at + 1);
      this.#previous.push(at - 1);
      this.#ranks.push(NO_RANK);
    }
    for (let at = 0; at < bytes.length; at++) this.#rank(at);
  }

  countTokens(): number {
    const length = this.#bytes.length;
    let tokens = length;
    for (let pair = this.#pairs.pop(); pair !== undefined; pair = this.#pairs.pop()) {
      const part = pair % length;
      if (this.#ranks[part] !== (pair - part) / length) continue;
      this.#mergeWithNext(part);
      tokens--;
    }
    return tokens;
  }

  #mergeWithNext(part: number): void {
    const next = this.#ends[part] ?? 0;
    const end = this.#ends[next] ?? 0;
    this.#ranks[next] = NO_RANK;
    this.#ends[part] = end;
    if (end < this.#bytes.length) this.#previous[end] = part;
    this.#rank(part);
    const previous = this.#previous[part] ?? NO_RANK;
    if (previous >= 0) this.#rank(previous);
  }

  #rank(part: number): void {
    const pairEnd = this.#ends[this.#ends[part] ?? 0];
    const rank = pairEnd === undefined ? undefined : this.#vocabulary.get(this.#bytes.slice(part, pairEnd));
    this.#ranks[part] = rank ?? NO_RANK;
    if (rank !== undefined) this.#pairs.push(rank * this.#bytes.length + part);
  }
}

/** A binary heap: `pop` returns the smallest number. */
class NumberHeap {
  readonly #numbers: number[] = [];

  push(number: number): void {
    const numbers = this.#numbers;
    let at = numbers.length;
    numbers.push(number);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = numbers[parent] ?? 0;
      if (above <= number) break;
      numbers[at] = above;
      at = parent;
    }
    numbers[at] = number;
  }

  pop(): number | undefined {
    const numbers = this.#numbers;
    const smallest = numbers[0];
    const last = numbers.pop();
    if (last === undefined || numbers.length === 0) return smallest;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= numbers.length) break;
      if ((numbers[child + 1] ?? Number.POSITIVE_INFINITY) < (numbers[child] ?? 0)) child++;
      const below = numbers[child] ?? 0;
      if (below >= last) break;
      numbers[at] = below;
      at = child;
    }
    numbers[at] = last;
    return smallest;
  }
}
