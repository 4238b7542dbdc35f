/** Lets queued work of many connections share the event loop: so much of it in one turn, first come first served. */

export class Turns {
  private queue: (() => void)[] = [];
  private readonly perTurn: number;

  constructor(perTurn: number) {
    this.perTurn = perTurn;
  }

  add(work: () => void): void {
    this.queue.push(work);
    if (this.queue.length === 1) setImmediate(this.run);
  }

  private readonly run = (): void => {
    const now = this.queue.slice(0, this.perTurn);
    // What is added meanwhile stands behind those that wait already.
    this.queue = this.queue.slice(this.perTurn);
    const hadMore = this.queue.length > 0;
    for (const work of now) work();
    if (hadMore) setImmediate(this.run);
  };
}
