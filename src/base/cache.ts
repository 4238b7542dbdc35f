/** A bounded cache in memory, for values that are cheap to compute again. */

interface CacheOptions {
  /** Names the entries in a debugger or heap snapshot. */
  name: string;
  entriesMax: number;
}

/**
 * Drops all entries when it is full. The entries in use come back at once, and lookups stay those of a plain `Map`: an
 * order of use would cost a write on every read. Values are never undefined.
 */
export class Cache<K, V> {
  readonly name: string;
  readonly #entriesMax: number;
  readonly #entries = new Map<K, V>();

  constructor({ name, entriesMax }: CacheOptions) {
    this.name = name;
    this.#entriesMax = entriesMax;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: K): V | undefined {
    return this.#entries.get(key);
  }

  set(key: K, value: V): void {
    if (this.#entries.size >= this.#entriesMax && !this.#entries.has(key)) this.#entries.clear();
    this.#entries.set(key, value);
  }

  getOrCreate(key: K, create: (key: K) => V): V {
    const cached = this.#entries.get(key);
    if (cached !== undefined) return cached;
    const created = create(key);
    this.set(key, created);
    return created;
  }
}
