/** Counts each group's waiting requests, for an account or a slot, so one `max_waiting` bounds both. */

export class QueueOccupancy {
  readonly #waitingByGroup = new Map<string, number>();

  /** Returns false, and changes nothing, if the group already has `maxWaiting` waiting requests. */
  enter(groupId: string, maxWaiting: number): boolean {
    const waiting = this.waiting(groupId);
    if (waiting >= maxWaiting) return false;
    this.#waitingByGroup.set(groupId, waiting + 1);
    return true;
  }

  leave(groupId: string): void {
    const waiting = this.waiting(groupId) - 1;
    if (waiting > 0) this.#waitingByGroup.set(groupId, waiting);
    else this.#waitingByGroup.delete(groupId);
  }

  waiting(groupId: string): number {
    return this.#waitingByGroup.get(groupId) ?? 0;
  }
}
