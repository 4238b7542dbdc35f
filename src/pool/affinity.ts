/**
 * Assigns conversations to accounts by rendezvous hashing (highest random weight). Each account gets a number from a
 * hash of the conversation and its id, and the highest wins. An account that is added or removed moves only its own
 * conversations.
 */

export interface HomeAccount {
  /** `hashAffinity` of the account id. */
  readonly seed: number;
  readonly weight: number;
}

/** FNV-1a. */
export function hashAffinity(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return mixBits(hash);
}

/** Mixes the hash so that every input bit affects every output bit. */
function mixBits(hash: number): number {
  let mix = hash;
  mix = Math.imul(mix ^ (mix >>> 16), 0x85ebca6b);
  mix = Math.imul(mix ^ (mix >>> 13), 0xc2b2ae35);
  return (mix ^ (mix >>> 16)) >>> 0;
}

/** The account with the highest number that `isOpenTo` accepts. Weight attracts conversations. */
export function findHome<H extends HomeAccount>(
  homes: readonly H[],
  affinity: number,
  isOpenTo: (home: H) => boolean,
): H | null {
  let best: H | null = null;
  let highest = 0;
  for (const home of homes) {
    const fraction = (mixBits(affinity ^ home.seed) + 0.5) / 2 ** 32;
    // An upper bound of `height` without the logarithm, which dominates the cost.
    if (home.weight / (1 - fraction) <= highest) continue;
    const height = home.weight / -Math.log(fraction);
    if (height > highest && isOpenTo(home)) {
      best = home;
      highest = height;
    }
  }
  return best;
}

/** Cache of assigned accounts, so that the assignment is not computed for each request. */
interface HomeAccounts<H> {
  /** `among` is the list in which the account was found. The result is only valid for the same list. */
  find(affinity: string, among: readonly H[]): H | null;
  set(affinity: string, among: readonly H[], home: H): void;
  clear(): void;
}

/** Holds at most twice `halfMax` entries: when the newer half is full, the older half is dropped. */
export function openHomeAccounts<H>(halfMax: number): HomeAccounts<H> {
  interface CachedHome {
    readonly among: readonly H[];
    readonly home: H;
  }
  let newer = new Map<string, CachedHome>();
  let older = new Map<string, CachedHome>();
  function put(affinity: string, cached: CachedHome): void {
    if (newer.size >= halfMax) {
      older = newer;
      newer = new Map();
    }
    newer.set(affinity, cached);
  }
  return {
    find(affinity, among) {
      let cached = newer.get(affinity);
      if (!cached) {
        cached = older.get(affinity);
        if (cached) put(affinity, cached);
      }
      return cached?.among === among ? cached.home : null;
    },
    set: (affinity, among, home) => put(affinity, { among, home }),
    clear() {
      newer = new Map();
      older = new Map();
    },
  };
}
