/**
 * Which account a conversation lives on: highest random weight. Each account draws a number from the
 * conversation's name and its own, and the highest wins, so that an account that comes or goes moves only the
 * conversations that are its own.
 */

export interface HomeAccount {
  /** `hashOf` the account's id. */
  readonly seed: number;
  readonly weight: number;
}

/** FNV-1a. */
export function hashAffinity(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return mixed(hash);
}

/** Every bit of the input moves every bit of the result. */
function mixed(hash: number): number {
  let mix = hash;
  mix = Math.imul(mix ^ (mix >>> 16), 0x85ebca6b);
  mix = Math.imul(mix ^ (mix >>> 13), 0xc2b2ae35);
  return (mix ^ (mix >>> 16)) >>> 0;
}

/** Among homes that are open to it; the heavier a home, the more conversations it draws. */
export function findHome<H extends HomeAccount>(
  homes: readonly H[],
  conversation: number,
  isOpenTo: (home: H) => boolean,
): H | null {
  let best: H | null = null;
  let highest = 0;
  for (const home of homes) {
    const drawn = (mixed(conversation ^ home.seed) + 0.5) / 2 ** 32;
    // Never less than the height itself, and without the logarithm that makes up most of the cost.
    if (home.weight / (1 - drawn) <= highest) continue;
    const height = home.weight / -Math.log(drawn);
    if (height > highest && isOpenTo(home)) {
      best = home;
      highest = height;
    }
  }
  return best;
}

/** Where conversations live among many accounts, kept so that it is not worked out for each of their requests. */
export interface HomeAccounts<H> {
  /** `among` is the list that the home was found in: of another list nothing is known. */
  find(conversation: string, among: readonly H[]): H | null;
  keep(conversation: string, among: readonly H[], home: H): void;
  clear(): void;
}

/** Holds twice as many at most: when one half is full, the older is let go. */
export function openHomeAccounts<H>(halfMax: number): HomeAccounts<H> {
  interface Line {
    readonly among: readonly H[];
    readonly home: H;
  }
  let young = new Map<string, Line>();
  let old = new Map<string, Line>();
  function put(conversation: string, line: Line): void {
    if (young.size >= halfMax) {
      old = young;
      young = new Map();
    }
    young.set(conversation, line);
  }
  return {
    find(conversation, among) {
      let line = young.get(conversation);
      if (!line) {
        line = old.get(conversation);
        if (line) put(conversation, line);
      }
      return line?.among === among ? line.home : null;
    },
    keep: (conversation, among, home) => put(conversation, { among, home }),
    clear() {
      young = new Map();
      old = new Map();
    },
  };
}
