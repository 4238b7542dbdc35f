/** A billing engine that forwards every call to another one. Wrappers extend it and override what they change. */

import type { UsageRow } from "../../store/usage/usage.ts";
import type { BillingEngine } from "./billing-engine.ts";
import type { HoldRequest, HoldResult, Settlement } from "./billing-types.ts";

export class ForwardingBilling implements BillingEngine {
  protected readonly inner: BillingEngine;

  constructor(inner: BillingEngine) {
    this.inner = inner;
  }

  hold(request: HoldRequest): HoldResult | Promise<HoldResult> {
    return this.inner.hold(request);
  }

  replaceHold(request: HoldRequest): Promise<HoldResult> {
    return this.inner.replaceHold(request);
  }

  releaseHold(requestId: string): Promise<void> {
    return this.inner.releaseHold(requestId);
  }

  recordDispatch(requestId: string, accountId: string, upstreamModel: string): void {
    this.inner.recordDispatch(requestId, accountId, upstreamModel);
  }

  recordRequeue(requestId: string): void {
    this.inner.recordRequeue(requestId);
  }

  checkpoint(requestId: string, outputTokens: number): void {
    this.inner.checkpoint(requestId, outputTokens);
  }

  settle(settlement: Settlement): Promise<void> | null {
    return this.inner.settle(settlement);
  }

  book(settlement: Settlement): Promise<void> {
    return this.inner.book(settlement);
  }

  push(row: UsageRow): void {
    this.inner.push(row);
  }

  flush(): Promise<void> {
    return this.inner.flush();
  }

  flushUser(userId: string): Promise<void> {
    return this.inner.flushUser(userId);
  }

  findUnbookedRow(requestId: string): UsageRow | null {
    return this.inner.findUnbookedRow(requestId);
  }

  hasCapacity(): boolean {
    return this.inner.hasCapacity();
  }

  acceptsHolds(): boolean {
    return this.inner.acceptsHolds();
  }

  isStoreResponding(): boolean {
    return this.inner.isStoreResponding();
  }

  recordHeartbeat(sentAtMs: number): void {
    this.inner.recordHeartbeat(sentAtMs);
  }

  handleRecalls(): Promise<void> {
    return this.inner.handleRecalls();
  }

  handleStoreReplaced(): Promise<void> {
    return this.inner.handleStoreReplaced();
  }

  isOpen(requestId: string): boolean {
    return this.inner.isOpen(requestId);
  }

  stop(): Promise<void> {
    return this.inner.stop();
  }
}
