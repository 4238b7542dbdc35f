/** Distributes work of many connections over turns of the event loop: some items a turn, in order. */

export class Turns {
  #queue: (() => void)[] = [];
  readonly #perTurn: number;

  constructor(perTurn: number) {
    this.#perTurn = perTurn;
  }

  add(work: () => void): void {
    this.#queue.push(work);
    if (this.#queue.length === 1) setImmediate(this.#run);
  }

  readonly #run = (): void => {
    const now = this.#queue.slice(0, this.#perTurn);
    // Work that is added during this turn is queued behind the waiting work.
    this.#queue = this.#queue.slice(this.#perTurn);
    const hadMore = this.#queue.length > 0;
    for (const work of now) work();
    if (hadMore) setImmediate(this.#run);
  };
}
