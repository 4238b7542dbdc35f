/** Finds the name that was probably meant by a misspelled one, with bounded work: a stranger may choose the name. */

/** Longer names are not compared. */
const NAME_CHARS_MAX = 96;
/** Of more names, only the first are compared. */
const NAMES_MAX = 512;
/** More edits are another name, however long it is. */
const EDITS_MAX = 4;

/** Returns the name that is a few typing errors away, one for each three characters; null if there is none. */
export function nearestName(misspelled: string, names: Iterable<string>): string | null {
  if (misspelled.length > NAME_CHARS_MAX) return null;
  const word = misspelled.toLowerCase();
  let best: string | null = null;
  let bestDistance = Math.min(Math.floor(word.length / 3), EDITS_MAX) + 1;
  let compared = 0;
  for (const name of names) {
    if (++compared > NAMES_MAX) break;
    const distance = measureEdits(word, name.toLowerCase(), bestDistance);
    if (distance < bestDistance) {
      best = name;
      bestDistance = distance;
    }
  }
  return best;
}

/**
 * Edit distance in which swapping two neighbours counts as one edit, or `enough` if it is not less. Only the cells
 * that are fewer than `enough` from the diagonal are computed, and none after a row that has no smaller value.
 */
function measureEdits(a: string, b: string, enough: number): number {
  if (Math.abs(a.length - b.length) >= enough) return enough;
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const row: number[] = [];
    const from = Math.max(1, i - enough + 1);
    row[from - 1] = from === 1 ? i : enough;
    let least = enough;
    for (let j = from; j <= Math.min(b.length, i + enough - 1); j++) {
      const replaced = (last[j - 1] ?? enough) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swapped = isSwap ? (beforeLast[j - 2] ?? enough) + 1 : replaced;
      row[j] = Math.min(replaced, swapped, (last[j] ?? enough) + 1, (row[j - 1] ?? enough) + 1);
      least = Math.min(least, row[j] ?? enough);
    }
    if (least >= enough) return enough;
    beforeLast = last;
    last = row;
  }
  return Math.min(last[b.length] ?? enough, enough);
}
