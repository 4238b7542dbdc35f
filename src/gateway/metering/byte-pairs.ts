/**
 * Counts the tokens of a word by byte-pair merging over a vocabulary. Bytes are strings with one character per byte,
 * because a Map looks strings up fast.
 */

/** Token → rank. Of two neighbours that can be merged, the pair with the lowest rank is merged first. */
export type Vocabulary = ReadonlyMap<string, number>;

/** The UTF-8 bytes of the word, one character per byte. */
export function vocabularyBytes(word: string): string {
  return Buffer.from(word, "utf8").toString("latin1");
}

export function countWordTokens(bytes: string, vocabulary: Vocabulary): number {
  if (bytes.length < 2 || vocabulary.has(bytes)) return bytes.length === 0 ? 0 : 1;
  /** The start of each part, followed by the end of the last one. */
  const starts: number[] = [];
  /** The rank of each part merged with the next one. */
  const ranks: number[] = [];
  const rankAt = (part: number): number => {
    const to = starts[part + 2];
    if (to === undefined) return Number.POSITIVE_INFINITY;
    return vocabulary.get(bytes.slice(starts[part], to)) ?? Number.POSITIVE_INFINITY;
  };
  for (let at = 0; at <= bytes.length; at++) starts.push(at);
  for (let part = 0; part < bytes.length; part++) ranks.push(rankAt(part));
  for (;;) {
    let best = 0;
    let lowest = Number.POSITIVE_INFINITY;
    for (let part = 0; part < ranks.length; part++) {
      const rank = ranks[part] ?? Number.POSITIVE_INFINITY;
      if (rank < lowest) {
        lowest = rank;
        best = part;
      }
    }
    if (lowest === Number.POSITIVE_INFINITY) return starts.length - 1;
    starts.splice(best + 1, 1);
    ranks.splice(best + 1, 1);
    ranks[best] = rankAt(best);
    if (best > 0) ranks[best - 1] = rankAt(best - 1);
  }
}
