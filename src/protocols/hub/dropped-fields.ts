/** Collects the names of the fields that a translation drops. */

const NAMES_MAX = 20;
const NAME = /^[\w.[\]-]{1,64}$/;

export class DroppedFields {
  readonly #names = new Set<string>();

  constructor(names: readonly string[] = []) {
    for (const name of names) this.add(name);
  }

  /** Clients choose some of the names, and they are sent in a header: others than plain ones are called `other`. */
  add(name: string): void {
    if (this.#names.size < NAMES_MAX) this.#names.add(NAME.test(name) ? name : "other");
  }

  /** Drops a setting that the client has set. */
  addIfSet(name: string, value: unknown): void {
    if (value !== null && value !== undefined) this.add(name);
  }

  list(): readonly string[] {
    return [...this.#names];
  }
}
