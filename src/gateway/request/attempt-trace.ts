/** The trace of one attempt: what became of the request at one account. Only the attempt itself changes it. */

import type { UpstreamFailure } from "../../accounts/failure.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import type { TokenUsage } from "../../protocols/shared/usage.ts";
import type { Dialect } from "../../records/interfaces.ts";

/** The stored form: plain data. Times are since the request was received. */
export interface AttemptRecord {
  readonly accountId: string;
  readonly accountName: string;
  readonly upstreamModel: string;
  readonly startedMs: number;
  readonly firstByteMs: number | null;
  readonly endedMs: number | null;
  readonly status: number | null;
  /** Null for the attempt that served the request. */
  readonly failure: string | null;
  readonly reason: string | null;
  /** The number and the group of its fallback step. */
  readonly step?: AttemptStep;
  /** The dialect that the request was translated into. */
  readonly translation?: Dialect;
  /** The fields that were dropped for the account, and what was dropped from its response. */
  readonly dropped?: readonly string[];
  /** The conversation carried opaque state that the account cannot use. */
  readonly stateDropped?: true;
  /** The usage that a failed attempt reported: its account will bill it. */
  readonly usage?: TokenUsage;
}

interface AttemptStep {
  readonly number: number;
  readonly group: string;
}

/** How the request for an account differs from the client's. */
export interface RequestChanges {
  /** The dialect that it was translated into; null if it passes through. */
  readonly dialect: Dialect | null;
  readonly dropped: readonly string[];
  /** The conversation carries opaque state that the account cannot use. */
  readonly isStateDropped: boolean;
}

const NONE_DROPPED: readonly string[] = [];
export const UNCHANGED: RequestChanges = { dialect: null, dropped: NONE_DROPPED, isStateDropped: false };

export interface AttemptStart {
  /** Absent or null if the request has no fallback. */
  readonly step?: AttemptStep | null;
  readonly route: AccountRoute;
  readonly changes: RequestChanges;
  readonly nowMs: number;
}

interface FirstByte {
  readonly atMs: number;
  readonly upstreamRequestId: string | null;
}

/** An attempt fails before it has served the request. What ends a response later is the end of the request. */
type AttemptState =
  | { readonly phase: "begun"; readonly firstByte: null }
  | { readonly phase: "responding" | "served"; readonly firstByte: FirstByte }
  | {
      readonly phase: "failed";
      readonly firstByte: FirstByte | null;
      readonly failure: UpstreamFailure;
      readonly endedMs: number;
    };

const BEGUN: AttemptState = { phase: "begun", firstByte: null };

export class AttemptTrace {
  readonly route: AccountRoute;
  readonly startedMs: number;
  /** Null without fallback. */
  readonly step: AttemptStep | null;
  readonly #requestStartedMs: number;
  readonly #changes: RequestChanges;
  #dropped: readonly string[];
  #state: AttemptState = BEGUN;

  constructor(requestStartedMs: number, { route, changes, nowMs, step = null }: AttemptStart) {
    this.#requestStartedMs = requestStartedMs;
    this.route = route;
    this.startedMs = Math.round(nowMs - requestStartedMs);
    this.step = step === null ? null : { number: step.number, group: step.group };
    this.#changes = changes;
    this.#dropped = changes.dropped;
  }

  /** The account has begun to respond. */
  recordFirstByte(upstreamRequestId: string | null, nowMs: number): void {
    const atMs = Math.round(nowMs - this.#requestStartedMs);
    if (this.#state.phase !== "failed")
      this.#state = { phase: "responding", firstByte: { atMs, upstreamRequestId } };
  }

  /** Its response is delivered to the client. */
  serve(): void {
    if (this.#state.phase === "responding")
      this.#state = { phase: "served", firstByte: this.#state.firstByte };
  }

  fail(failure: UpstreamFailure, nowMs: number): void {
    const endedMs = Math.round(nowMs - this.#requestStartedMs);
    this.#state = { phase: "failed", firstByte: this.#state.firstByte, failure, endedMs };
  }

  /** What the account, or the client, cannot express was left out. */
  addDropped(dropped: readonly string[]): void {
    this.#dropped = [...this.#dropped, ...dropped];
  }

  get phase(): AttemptState["phase"] {
    return this.#state.phase;
  }

  get accountId(): string {
    return this.route.account.id;
  }

  /** The class of its failure; null as long as it has not failed. */
  get failure(): UpstreamFailure["class"] | null {
    return this.#state.phase === "failed" ? this.#state.failure.class : null;
  }

  /** The usage that it reported although it failed: its account will bill it. */
  get wastedUsage(): TokenUsage | null {
    return this.#state.phase === "failed" ? (this.#state.failure.usage ?? null) : null;
  }

  /** When it failed, since the request was received; null as long as it has not. */
  get endedMs(): number | null {
    return this.#state.phase === "failed" ? this.#state.endedMs : null;
  }

  /** Since the request was received; null before it. */
  get firstByteMs(): number | null {
    return this.#state.firstByte?.atMs ?? null;
  }

  /** The account's own id for the request. */
  get upstreamRequestId(): string | null {
    return this.#state.firstByte?.upstreamRequestId ?? null;
  }

  /** The time to first byte, without the waits before the attempt; 0 before it. */
  get latencyMs(): number {
    const { firstByteMs } = this;
    return firstByteMs === null ? 0 : firstByteMs - this.startedMs;
  }

  get isTranslated(): boolean {
    return this.#changes.dialect !== null;
  }

  get dropped(): readonly string[] {
    return this.#dropped;
  }

  toRecord(): AttemptRecord {
    const state = this.#state;
    const { account, upstreamModel } = this.route;
    const { dialect, isStateDropped } = this.#changes;
    const { wastedUsage: usage } = this;
    const end =
      state.phase === "failed"
        ? {
            endedMs: state.endedMs,
            status: state.failure.status,
            failure: state.failure.class,
            reason: state.failure.reason,
          }
        : { endedMs: null, status: state.firstByte === null ? null : 200, failure: null, reason: null };
    return {
      accountId: account.id,
      accountName: account.name,
      upstreamModel,
      startedMs: this.startedMs,
      firstByteMs: this.firstByteMs,
      ...end,
      ...(this.step === null ? {} : { step: this.step }),
      ...(dialect === null ? {} : { translation: dialect }),
      ...(this.#dropped.length === 0 ? {} : { dropped: this.#dropped }),
      ...(isStateDropped ? { stateDropped: true } : {}),
      ...(usage === null ? {} : { usage }),
    };
  }
}
