/**
 * The reservation of a request that has moved to another group: that of its key and user, and that of the group. They
 * are admitted one after the other and end together.
 */

import type { LimitLease, Subject, TrueUse } from "./limiter-types.ts";

export class JoinedLease implements LimitLease {
  readonly own: LimitLease;
  readonly group: LimitLease;

  constructor(own: LimitLease, group: LimitLease) {
    this.own = own;
    this.group = group;
  }

  isHeld(): boolean {
    return this.own.isHeld() && this.group.isHeld();
  }

  settle(use: TrueUse): void {
    this.own.settle(use);
    this.group.settle(use);
  }

  release(): void {
    this.own.release();
    this.group.release();
  }

  cancel(): void {
    this.own.cancel();
    this.group.cancel();
  }

  cancelSubjects(subjects: readonly Subject[]): void {
    this.own.cancelSubjects(subjects);
    this.group.cancelSubjects(subjects);
  }

  finish(): void {
    this.own.finish();
    this.group.finish();
  }
}
