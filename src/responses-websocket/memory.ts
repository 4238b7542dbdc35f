/**
 * What connections remember, so that a client can go on from a response without sending the conversation again: of each
 * lane the last response, with everything the model had read and said by then. Bounded for a connection, for a key and
 * for all of them together; what does not fit is forgotten, and its client sends the conversation in full.
 */

/** Some items of a conversation that follow each other. */
export interface ConversationPiece {
  /** As JSON, with commas between them; never empty. */
  readonly json: Uint8Array;
  /** Ids of the tool calls among them. */
  readonly calls: ReadonlySet<string>;
}

export interface StoredConversation {
  readonly responseId: string;
  readonly pieces: readonly ConversationPiece[];
  /** How much memory it takes. */
  readonly bytes: number;
}

/** The memory of one connection. */
export interface ConversationMemory {
  find(responseId: string): StoredConversation | null;
  /** In place of what the lane kept before; null keeps nothing. */
  keep(lane: string, kept: StoredConversation | null): void;
  forget(responseId: string): void;
  clear(): void;
}

export interface MemoryPool {
  /** `key` tells whose connection it is. */
  open(key: string): ConversationMemory;
  readonly bytes: number;
}

export interface MemoryLimits {
  readonly bytesMax: number;
  readonly keyBytesMax: number;
  readonly connectionBytesMax: number;
}

export function openMemoryPool(limits: MemoryLimits): MemoryPool {
  const everywhere = new Share(limits.bytesMax);
  const byKey = new Map<string, Share>();

  function open(key: string): ConversationMemory {
    const byLane = new Map<string, StoredConversation>();
    const mine = new Share(limits.connectionBytesMax);

    function shareOfKey(): Share {
      const share = byKey.get(key) ?? new Share(limits.keyBytesMax);
      byKey.set(key, share);
      return share;
    }

    function drop(lane: string): void {
      const kept = byLane.get(lane);
      if (kept === undefined) return;
      const ofKey = shareOfKey();
      byLane.delete(lane);
      for (const share of [mine, ofKey, everywhere]) share.remove(kept);
      if (ofKey.isEmpty) byKey.delete(key);
    }

    return {
      find(responseId) {
        for (const kept of byLane.values()) if (kept.responseId === responseId) return kept;
        return null;
      },
      keep(lane, kept) {
        drop(lane);
        if (kept === null || kept.bytes > limits.connectionBytesMax) return;
        byLane.set(lane, kept);
        const shares = [mine, shareOfKey(), everywhere];
        for (const share of shares) share.add(kept, () => drop(lane));
        for (const share of shares) share.makeRoom();
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
      return everywhere.bytes;
    },
  };
}

/** A bounded part of the memory, and how to forget each thing in it. */
class Share {
  bytes = 0;
  private readonly bytesMax: number;
  /** In the order they were kept: the oldest is the first to be forgotten. */
  private readonly forgets = new Map<StoredConversation, () => void>();

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }

  get isEmpty(): boolean {
    return this.forgets.size === 0;
  }

  add(kept: StoredConversation, forget: () => void): void {
    this.forgets.set(kept, forget);
    this.bytes += kept.bytes;
  }

  remove(kept: StoredConversation): void {
    if (this.forgets.delete(kept)) this.bytes -= kept.bytes;
  }

  makeRoom(): void {
    for (const forget of this.forgets.values()) {
      if (this.bytes <= this.bytesMax) return;
      forget();
    }
  }
}
