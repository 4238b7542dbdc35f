/** Counts something by user. Users with a count of 0 take no memory. */
export class UserCounts {
  readonly #counts = new Map<string, number>();

  has(userId: string): boolean {
    return this.#counts.has(userId);
  }

  add(userId: string): void {
    this.#counts.set(userId, (this.#counts.get(userId) ?? 0) + 1);
  }

  remove(userId: string): void {
    const count = (this.#counts.get(userId) ?? 0) - 1;
    if (count > 0) this.#counts.set(userId, count);
    else this.#counts.delete(userId);
  }
}
