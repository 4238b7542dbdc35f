/**
 * How much was used in the last `perMs`, whichever moment one looks. A ring holds one entry for each moment of
 * use, oldest first; an entry leaves when its newest use is `perMs` old, so nothing is granted again early.
 * With a grain of 0 this is exact. A wider grain lets uses close together share an entry: they then leave
 * together, late by at most the grain, and a window of weeks stays a few hundred entries.
 *
 * Time must never run backwards here; the limiter sees to that. So a use is found again by its moment alone.
 */

/** An entry is three numbers: its first use, its last use, the sum. A sum of 0 is a hole, left by a cancel. */
const FIELDS = 3;
const ENTRIES_MIN = 4;
/** A ring larger than this is given back when it runs empty. */
const ENTRIES_KEPT = 64;
const GONE = -1;
const NEVER = Number.POSITIVE_INFINITY;
const NO_ENTRIES = new Float64Array(0);

export interface SlidingWindow {
  readonly perMs: number;
  readonly grainMs: number;
  used: number;
  /** No entry leaves before this: spares most looks at the ring. */
  leavesAtMs: number;
  /** `mask + 1` entries, a power of two, grown as needed: as large as the limit lets it be, never more. */
  ring: Float64Array;
  mask: number;
  head: number;
  length: number;
  holes: number;
}

/** One use that may yet change. `goneAmount` is what has left the window and can no longer be changed. */
export interface Share {
  readonly window: SlidingWindow;
  atMs: number;
  amount: number;
  goneAmount: number;
}

export function openWindow(perMs: number, grainMs: number): SlidingWindow {
  return {
    perMs,
    grainMs,
    used: 0,
    leavesAtMs: NEVER,
    ring: NO_ENTRIES,
    mask: -1,
    head: 0,
    length: 0,
    holes: 0,
  };
}

/** Lets go of what is older than the window. Everything below expects it to have been called for this moment. */
export function advance(window: SlidingWindow, nowMs: number): void {
  if (nowMs >= window.leavesAtMs) letGo(window, nowMs);
}

function letGo(window: SlidingWindow, nowMs: number): void {
  const { ring, mask, perMs } = window;
  while (window.length > 0) {
    const place = window.head * FIELDS;
    const leavesAtMs = (ring[place + 1] ?? 0) + perMs;
    if (leavesAtMs > nowMs) {
      window.leavesAtMs = leavesAtMs;
      return;
    }
    const amount = ring[place + 2] ?? 0;
    if (amount === 0) window.holes -= 1;
    window.used -= amount;
    window.head = (window.head + 1) & mask;
    window.length -= 1;
  }
  window.leavesAtMs = NEVER;
  if (mask >= ENTRIES_KEPT) clear(window, 0);
}

/**
 * How long until this amount fits; 0 when it does. An amount above the whole maximum fits an empty window: it
 * could never be served otherwise, and what follows pays for it. A maximum of 0 lets nothing through, ever.
 */
export function waitMs(window: SlidingWindow, amount: number, max: number, nowMs: number): number {
  if (max <= 0) return Number.POSITIVE_INFINITY;
  const { used } = window;
  if (used + amount <= max || used === 0) return 0;
  let toLeave = amount > max ? used : used + amount - max;
  for (let i = 0; i < window.length; i++) {
    const place = placeOf(window, i);
    toLeave -= window.ring[place + 2] ?? 0;
    if (toLeave <= 0) return (window.ring[place + 1] ?? 0) + window.perMs - nowMs;
  }
  return window.perMs;
}

/** How long until nothing is used any more. */
export function resetMs(window: SlidingWindow, nowMs: number): number {
  if (window.length === 0) return 0;
  return (window.ring[placeOf(window, window.length - 1) + 1] ?? 0) + window.perMs - nowMs;
}

export function take(window: SlidingWindow, amount: number, nowMs: number): void {
  if (amount === 0) return;
  const newest = newestPlace(window);
  if (newest !== GONE && isNear(window, newest, nowMs)) join(window, newest, amount, nowMs);
  else push(window, nowMs, nowMs, amount);
}

/**
 * Replaces what a share counts for. It keeps its moment while that is within the window; tokens that turn up
 * later than that count from now, so a long stream cannot outrun its own estimate.
 */
export function settleShare(share: Share, amount: number, nowMs: number): void {
  const { window } = share;
  const place = share.amount === 0 ? GONE : placeAt(window, share.atMs);
  if (place === GONE) {
    share.goneAmount += share.amount;
    share.amount = 0;
  }
  const counted = Math.max(0, amount - share.goneAmount);
  if (share.amount > 0) change(window, place, counted - share.amount);
  else if (counted > 0) {
    take(window, counted, nowMs);
    share.atMs = nowMs;
  }
  share.amount = counted;
}

/** Whether the window still holds it. */
export function isHeld({ window, amount, atMs }: Share): boolean {
  return amount > 0 && placeAt(window, atMs) !== GONE;
}

export function giveBack(window: SlidingWindow, amount: number, atMs: number): void {
  const place = amount === 0 ? GONE : placeAt(window, atMs);
  if (place !== GONE) change(window, place, -amount);
}

/** Adds use of the past, which no request owns, where it belongs in time. */
export function restore(window: SlidingWindow, past: readonly { atMs: number; amount: number }[]): void {
  const spans = past.map(({ atMs, amount }) => ({ firstMs: atMs, lastMs: atMs, amount }));
  for (let i = 0; i < window.length; i++) {
    const place = placeOf(window, i);
    const [firstMs = 0, lastMs = 0, amount = 0] = window.ring.subarray(place, place + FIELDS);
    if (amount > 0) spans.push({ firstMs, lastMs, amount });
  }
  spans.sort((a, b) => a.firstMs - b.firstMs);
  clear(window, 0);
  for (const span of spans) {
    const newest = newestPlace(window);
    const newestLastMs = newest === GONE ? Number.NEGATIVE_INFINITY : (window.ring[newest + 1] ?? 0);
    const lastMs = Math.max(newestLastMs, span.lastMs);
    const joins = newest !== GONE && isNear(window, newest, lastMs);
    if (joins) join(window, newest, span.amount, lastMs);
    else push(window, span.firstMs, lastMs, span.amount);
  }
}

function isNear(window: SlidingWindow, place: number, atMs: number): boolean {
  return atMs - (window.ring[place] ?? 0) <= window.grainMs;
}

function join(window: SlidingWindow, place: number, amount: number, lastMs: number): void {
  window.ring[place + 1] = lastMs;
  change(window, place, amount);
}

function push(window: SlidingWindow, firstMs: number, lastMs: number, amount: number): void {
  if (window.length > window.mask) makeRoom(window);
  if (window.length === 0) window.leavesAtMs = lastMs + window.perMs;
  const place = placeOf(window, window.length);
  window.ring[place] = firstMs;
  window.ring[place + 1] = lastMs;
  window.ring[place + 2] = amount;
  window.length += 1;
  window.used += amount;
}

/** Changes a sum. Holes at either end are dropped at once, so the newest entry is never one. */
function change(window: SlidingWindow, place: number, by: number): void {
  const sum = (window.ring[place + 2] ?? 0) + by;
  window.ring[place + 2] = sum;
  window.used += by;
  if (sum > 0) return;
  window.holes += 1;
  while (window.length > 0 && window.ring[placeOf(window, window.length - 1) + 2] === 0) {
    window.length -= 1;
    window.holes -= 1;
  }
  while (window.length > 0 && window.ring[placeOf(window, 0) + 2] === 0) {
    window.head = (window.head + 1) & window.mask;
    window.length -= 1;
    window.holes -= 1;
  }
}

/** A use that still counts has its entry, unless that has left: the one whose span covers its moment. */
function placeAt(window: SlidingWindow, atMs: number): number {
  const newest = newestPlace(window);
  if (newest === GONE) return GONE;
  if ((window.ring[newest] ?? 0) <= atMs) return newest;
  let low = 0;
  let high = window.length - 1;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((window.ring[placeOf(window, middle) + 1] ?? 0) < atMs) low = middle + 1;
    else high = middle;
  }
  const place = placeOf(window, low);
  return (window.ring[place] ?? 0) <= atMs ? place : GONE;
}

function newestPlace(window: SlidingWindow): number {
  return window.length === 0 ? GONE : placeOf(window, window.length - 1);
}

function placeOf(window: SlidingWindow, index: number): number {
  return ((window.head + index) & window.mask) * FIELDS;
}

/** Doubles the ring, or only closes its holes where they are half of it: cancelling must not make it grow. */
function makeRoom(window: SlidingWindow): void {
  const { ring, mask, head, length, holes } = window;
  const capacity = mask + 1;
  clear(window, Math.max(1, holes * 2 >= capacity ? capacity : capacity * 2));
  for (let i = 0; i < length; i++) {
    const place = ((head + i) & mask) * FIELDS;
    const amount = ring[place + 2] ?? 0;
    if (amount > 0) push(window, ring[place] ?? 0, ring[place + 1] ?? 0, amount);
  }
}

function clear(window: SlidingWindow, entries: number): void {
  let capacity = ENTRIES_MIN;
  while (capacity < entries) capacity *= 2;
  window.ring = entries === 0 ? NO_ENTRIES : new Float64Array(capacity * FIELDS);
  window.mask = entries === 0 ? -1 : capacity - 1;
  window.head = 0;
  window.length = 0;
  window.holes = 0;
  window.used = 0;
  window.leavesAtMs = NEVER;
}
