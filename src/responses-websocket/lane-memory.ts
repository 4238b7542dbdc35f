/**
 * Remembered conversations of connections, so that a client can continue from a response without sending the
 * conversation again. Each lane remembers its last response with the complete conversation up to it. Limited per
 * connection, per key and in total. A conversation that does not fit is dropped, and the client has to send it in
 * full.
 */

/** Consecutive items of remembered turns. */
export interface RememberedItems {
  /** JSON, separated by commas; never empty. */
  readonly json: Uint8Array;
  /** Ids of the tool calls among the items. */
  readonly calls: ReadonlySet<string>;
}

export interface RememberedTurns {
  readonly responseId: string;
  readonly pieces: readonly RememberedItems[];
  /** Memory in use. */
  readonly bytes: number;
}

export interface LaneMemory {
  find(responseId: string): RememberedTurns | null;
  /** Replaces the turns of the lane; null removes them. */
  store(lane: string, stored: RememberedTurns | null): void;
  forget(responseId: string): void;
  clear(): void;
}

export interface MemoryPool {
  /** `key` is the key of the connection. */
  open(key: string): LaneMemory;
  readonly bytes: number;
}

interface MemoryLimits {
  readonly bytesMax: number;
  readonly keyBytesMax: number;
  readonly connectionBytesMax: number;
}

export function openMemoryPool(limits: MemoryLimits): MemoryPool {
  const total = new MemoryShare(limits.bytesMax);
  const byKey = new Map<string, MemoryShare>();

  function open(key: string): LaneMemory {
    const byLane = new Map<string, RememberedTurns>();
    const connectionShare = new MemoryShare(limits.connectionBytesMax);

    function lookUpKeyShare(): MemoryShare {
      const share = byKey.get(key) ?? new MemoryShare(limits.keyBytesMax);
      byKey.set(key, share);
      return share;
    }

    function drop(lane: string): void {
      const stored = byLane.get(lane);
      if (stored === undefined) return;
      const keyShare = lookUpKeyShare();
      byLane.delete(lane);
      for (const share of [connectionShare, keyShare, total]) share.remove(stored);
      if (keyShare.isEmpty) byKey.delete(key);
    }

    return {
      find(responseId) {
        for (const stored of byLane.values()) if (stored.responseId === responseId) return stored;
        return null;
      },
      store(lane, stored) {
        drop(lane);
        if (stored === null || stored.bytes > limits.connectionBytesMax) return;
        byLane.set(lane, stored);
        const shares = [connectionShare, lookUpKeyShare(), total];
        for (const share of shares) share.add(stored, () => drop(lane));
        for (const share of shares) share.evict();
      },
      forget(responseId) {
        for (const [lane, kept] of byLane) if (kept.responseId === responseId) drop(lane);
      },
      clear() {
        for (const lane of [...byLane.keys()]) drop(lane);
      },
    };
  }

  return {
    open,
    get bytes() {
      return total.bytes;
    },
  };
}

/** A bounded part of the memory, with a callback to drop the turns of each lane in it. */
class MemoryShare {
  bytes = 0;
  readonly #bytesMax: number;
  /** In insertion order: the oldest turns are dropped first. */
  readonly #dropCallbacks = new Map<RememberedTurns, () => void>();

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get isEmpty(): boolean {
    return this.#dropCallbacks.size === 0;
  }

  add(stored: RememberedTurns, forget: () => void): void {
    this.#dropCallbacks.set(stored, forget);
    this.bytes += stored.bytes;
  }

  remove(stored: RememberedTurns): void {
    if (this.#dropCallbacks.delete(stored)) this.bytes -= stored.bytes;
  }

  evict(): void {
    for (const forget of this.#dropCallbacks.values()) {
      if (this.bytes <= this.#bytesMax) return;
      forget();
    }
  }
}
