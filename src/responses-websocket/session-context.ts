/** What all connections share: services, limits, budgets, and how a connection is retired. */

import type { NewId } from "../base/clock.ts";
import type { ApiError } from "../errors.ts";
import type { Gateway } from "../gateway/gateway.ts";
import type { Pipeline } from "../gateway/pipeline.ts";
import type { ThreadPoolLimits } from "../threads/thread-pool.ts";
import type { ByteBudget } from "./byte-budget.ts";
import type { FrameInspector } from "./frame-inspector.ts";
import type { MemoryPool } from "./lane-memory.ts";
import type { LaneLimits } from "./lanes.ts";
import type { Turn } from "./turn.ts";
import type { WarmUpLimits, WarmUpServices } from "./warm-up.ts";

export interface SocketLimits extends LaneLimits, WarmUpLimits {
  readonly socketMessagesPerSecondMax: number;
  readonly socketWarmUpsPerSecondMax: number;
  readonly socketTurnsMax: number;
  readonly socketMemoryBytesMax: number;
  readonly socketBufferedBytesMax: number;
  /** Longer frames are parsed in a thread. */
  readonly inspectInThreadAboveBytes: number;
  readonly inspectionThreads: ThreadPoolLimits;
}

type SessionServices = WarmUpServices & Pick<Gateway, "log" | "limiter">;

/** State that all connections share. */
export interface SessionContext {
  readonly gateway: SessionServices;
  readonly pipeline: Pick<Pipeline<Turn, void>, "handle">;
  readonly limits: SocketLimits;
  readonly memories: MemoryPool;
  readonly waitingBytes: ByteBudget;
  readonly inspector: FrameInspector;
  readonly newId: NewId;
}

/** Why a connection accepts no more turns, and how it is closed after its last turn. */
export interface Retirement {
  readonly error: ApiError;
  readonly code: number;
  /** Also send the error to a client without a turn in flight. */
  readonly sendsErrorWhenIdle: boolean;
}
