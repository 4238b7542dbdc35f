/**
 * The use within the last `perMs`, at any time. A ring holds one entry per time of use, oldest first. An entry leaves
 * when its newest use is `perMs` old, so nothing is granted again too early. With a grain of 0 this is exact. With a
 * wider grain, uses close together share an entry: they leave together, late by at most the grain, and a window of
 * weeks needs only a few hundred entries.
 *
 * Time must never run backwards here; the limiter guarantees that. So a use is found again by its time alone.
 */

/** An entry is three numbers: first use, last use, sum. A sum of 0 is a hole, left by a cancellation. */
const FIELDS = 3;
const ENTRIES_MIN = 4;
/** A ring larger than this is freed when it becomes empty. */
const ENTRIES_KEPT = 64;
const GONE = -1;
const NEVER = Number.POSITIVE_INFINITY;
const NO_ENTRIES = new Float64Array(0);

export interface SlidingWindow {
  readonly perMs: number;
  readonly grainMs: number;
  used: number;
  /** No entry leaves before this time, which saves most reads of the ring. */
  nextExpiryMs: number;
  /** `mask + 1` entries, a power of two. It grows as needed, and the limit bounds it. */
  ring: Float64Array;
  mask: number;
  head: number;
  length: number;
  holes: number;
}

/** One use that may still change. `expiredAmount` is the part that has left the window and is final. */
export interface Share {
  readonly window: SlidingWindow;
  atMs: number;
  amount: number;
  expiredAmount: number;
}

export function openWindow(perMs: number, grainMs: number): SlidingWindow {
  return {
    perMs,
    grainMs,
    used: 0,
    nextExpiryMs: NEVER,
    ring: NO_ENTRIES,
    mask: -1,
    head: 0,
    length: 0,
    holes: 0,
  };
}

/** Removes what is older than the window. All functions below expect that it was called for the current time. */
export function advance(window: SlidingWindow, nowMs: number): void {
  if (nowMs >= window.nextExpiryMs) removeExpired(window, nowMs);
}

function removeExpired(window: SlidingWindow, nowMs: number): void {
  const { ring, mask, perMs } = window;
  while (window.length > 0) {
    const offset = window.head * FIELDS;
    const leavesAtMs = (ring[offset + 1] ?? 0) + perMs;
    if (leavesAtMs > nowMs) {
      window.nextExpiryMs = leavesAtMs;
      return;
    }
    const amount = ring[offset + 2] ?? 0;
    if (amount === 0) window.holes -= 1;
    window.used -= amount;
    window.head = (window.head + 1) & mask;
    window.length -= 1;
  }
  window.nextExpiryMs = NEVER;
  if (mask >= ENTRIES_KEPT) clear(window, 0);
}

/**
 * Time until this amount fits; 0 if it fits now. An amount above the maximum fits an empty window, because it could
 * never be served otherwise; later requests wait for it. A maximum of 0 admits nothing.
 */
export function waitMs(window: SlidingWindow, amount: number, max: number, nowMs: number): number {
  if (max <= 0) return Number.POSITIVE_INFINITY;
  const { used } = window;
  if (used + amount <= max || used === 0) return 0;
  let excess = amount > max ? used : used + amount - max;
  for (let i = 0; i < window.length; i++) {
    const offset = offsetAt(window, i);
    excess -= window.ring[offset + 2] ?? 0;
    if (excess <= 0) return (window.ring[offset + 1] ?? 0) + window.perMs - nowMs;
  }
  return window.perMs;
}

/** Time until the window is empty. */
export function resetMs(window: SlidingWindow, nowMs: number): number {
  if (window.length === 0) return 0;
  return (window.ring[offsetAt(window, window.length - 1) + 1] ?? 0) + window.perMs - nowMs;
}

export function take(window: SlidingWindow, amount: number, nowMs: number): void {
  if (amount === 0) return;
  const newest = newestOffset(window);
  if (newest !== GONE && isNear(window, newest, nowMs)) join(window, newest, amount, nowMs);
  else push(window, nowMs, nowMs, amount);
}

/**
 * Replaces the amount of a share. The share keeps its time while that is within the window. Later tokens count from
 * now, so a long stream cannot exceed its own estimate without being counted.
 */
export function settleShare(share: Share, amount: number, nowMs: number): void {
  const { window } = share;
  const offset = share.amount === 0 ? GONE : findOffset(window, share.atMs);
  if (offset === GONE) {
    share.expiredAmount += share.amount;
    share.amount = 0;
  }
  const counted = Math.max(0, amount - share.expiredAmount);
  if (share.amount > 0) change(window, offset, counted - share.amount);
  else if (counted > 0) {
    take(window, counted, nowMs);
    share.atMs = nowMs;
  }
  share.amount = counted;
}

/** Whether the share is still in the window. */
export function isHeld({ window, amount, atMs }: Share): boolean {
  return amount > 0 && findOffset(window, atMs) !== GONE;
}

export function subtract(window: SlidingWindow, amount: number, atMs: number): void {
  const offset = amount === 0 ? GONE : findOffset(window, atMs);
  if (offset !== GONE) change(window, offset, -amount);
}

/** The uses in the window, oldest first. */
export function listUses(window: SlidingWindow): { atMs: number; amount: number }[] {
  const uses: { atMs: number; amount: number }[] = [];
  for (let i = 0; i < window.length; i++) {
    const offset = offsetAt(window, i);
    const amount = window.ring[offset + 2] ?? 0;
    if (amount > 0) uses.push({ atMs: window.ring[offset + 1] ?? 0, amount });
  }
  return uses;
}

/** Adds past use, which belongs to no request, at its time. */
export function restore(window: SlidingWindow, past: readonly { atMs: number; amount: number }[]): void {
  const spans = past.map(({ atMs, amount }) => ({ firstMs: atMs, lastMs: atMs, amount }));
  for (let i = 0; i < window.length; i++) {
    const offset = offsetAt(window, i);
    const [firstMs = 0, lastMs = 0, amount = 0] = window.ring.subarray(offset, offset + FIELDS);
    if (amount > 0) spans.push({ firstMs, lastMs, amount });
  }
  spans.sort((a, b) => a.firstMs - b.firstMs);
  clear(window, 0);
  for (const span of spans) {
    const newest = newestOffset(window);
    const newestLastMs = newest === GONE ? Number.NEGATIVE_INFINITY : (window.ring[newest + 1] ?? 0);
    const lastMs = Math.max(newestLastMs, span.lastMs);
    const joins = newest !== GONE && isNear(window, newest, lastMs);
    if (joins) join(window, newest, span.amount, lastMs);
    else push(window, span.firstMs, lastMs, span.amount);
  }
}

function isNear(window: SlidingWindow, offset: number, atMs: number): boolean {
  return atMs - (window.ring[offset] ?? 0) <= window.grainMs;
}

function join(window: SlidingWindow, offset: number, amount: number, lastMs: number): void {
  window.ring[offset + 1] = lastMs;
  change(window, offset, amount);
}

function push(window: SlidingWindow, firstMs: number, lastMs: number, amount: number): void {
  if (window.length > window.mask) growRing(window);
  if (window.length === 0) window.nextExpiryMs = lastMs + window.perMs;
  const offset = offsetAt(window, window.length);
  window.ring[offset] = firstMs;
  window.ring[offset + 1] = lastMs;
  window.ring[offset + 2] = amount;
  window.length += 1;
  window.used += amount;
}

/** Changes a sum. Holes at either end are dropped at once, so the newest entry is never a hole. */
function change(window: SlidingWindow, offset: number, by: number): void {
  const sum = (window.ring[offset + 2] ?? 0) + by;
  window.ring[offset + 2] = sum;
  window.used += by;
  if (sum > 0) return;
  window.holes += 1;
  while (window.length > 0 && window.ring[offsetAt(window, window.length - 1) + 2] === 0) {
    window.length -= 1;
    window.holes -= 1;
  }
  while (window.length > 0 && window.ring[offsetAt(window, 0) + 2] === 0) {
    window.head = (window.head + 1) & window.mask;
    window.length -= 1;
    window.holes -= 1;
  }
}

/** The entry whose span covers this time. A counted use always has one, unless the entry has left the window. */
function findOffset(window: SlidingWindow, atMs: number): number {
  const newest = newestOffset(window);
  if (newest === GONE) return GONE;
  if ((window.ring[newest] ?? 0) <= atMs) return newest;
  let low = 0;
  let high = window.length - 1;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((window.ring[offsetAt(window, middle) + 1] ?? 0) < atMs) low = middle + 1;
    else high = middle;
  }
  const offset = offsetAt(window, low);
  return (window.ring[offset] ?? 0) <= atMs ? offset : GONE;
}

function newestOffset(window: SlidingWindow): number {
  return window.length === 0 ? GONE : offsetAt(window, window.length - 1);
}

function offsetAt(window: SlidingWindow, index: number): number {
  return ((window.head + index) & window.mask) * FIELDS;
}

/** Doubles the ring, or only removes its holes if they are half of it: cancellations must not make it grow. */
function growRing(window: SlidingWindow): void {
  const { ring, mask, head, length, holes } = window;
  const capacity = mask + 1;
  clear(window, Math.max(1, holes * 2 >= capacity ? capacity : capacity * 2));
  for (let i = 0; i < length; i++) {
    const offset = ((head + i) & mask) * FIELDS;
    const amount = ring[offset + 2] ?? 0;
    if (amount > 0) push(window, ring[offset] ?? 0, ring[offset + 1] ?? 0, amount);
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
  window.nextExpiryMs = NEVER;
}
