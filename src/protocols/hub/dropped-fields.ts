/** Collects the names of what a translation drops. */

const NAMES_MAX = 20;
const NAME = /^[\w.[\]-]{1,64}$/;

export class DroppedFields {
  readonly #names = new Set<string>();
  readonly #onAdd: (name: string) => void;

  /** `onAdd` is called once for each name. */
  constructor(names: readonly string[] = [], onAdd: (name: string) => void = () => {}) {
    this.#onAdd = onAdd;
    for (const name of names) this.add(name);
  }

  /** Clients choose some of the names, and they are sent in a header: others than plain ones are called `other`. */
  add(name: string): void {
    const plain = NAME.test(name) ? name : "other";
    if (this.#names.size >= NAMES_MAX || this.#names.has(plain)) return;
    this.#names.add(plain);
    this.#onAdd(plain);
  }

  addIfSet(name: string, value: unknown): void {
    if (value !== null && value !== undefined) this.add(name);
  }

  list(): readonly string[] {
    return [...this.#names];
  }
}
