/** How a request ended: the facts that its settlement needs in addition to the request context. */

import type { ApiError } from "../../errors.ts";
import type { ResponseFacts } from "../../protocols/shared/response-facts.ts";
import type { TokenUsage } from "../../protocols/shared/usage.ts";
import type { UsageRow } from "../../store/usage/usage-row.ts";
import type { CountedOutput } from "../metering/output-counter.ts";
import type { BatchedWork } from "../request/trace.ts";

/** The state of a response upstream when its request has ended here. */
export type ResponseState =
  | "ended"
  /** A background response: it continues. */
  | "background"
  /** Its stream ended early here. The response may continue or have stopped. */
  | "left";

export interface RequestEnding {
  outcome: UsageRow["outcome"];
  status: number;
  error: ApiError | null;
  usage: TokenUsage | null;
  images: number;
  /** Size and quality of those images, as the upstream reports them (`image-kind.ts`). */
  imageKind: string | null;
  responseId: string | null;
  responseState: ResponseState;
  /** An account processed the request for the client, so the request is charged. */
  isServed: boolean;
  /**
   * The response was read to its end, whether or not the client was still connected. False if it broke off or was
   * cancelled.
   */
  isWhole: boolean;
  /** Counts the received text, for upstreams that report no usage; null for responses without text. */
  countOutput: (() => Promise<CountedOutput>) | null;
  /** Estimates the streamed text synchronously; null for responses that are not streamed as text. */
  estimateShown: (() => CountedOutput) | null;
  /**
   * The client disconnected before the end. Output that it did not receive is estimated and charged if the group
   * charges.
   */
  isAbandoned: boolean;
  /** For traces; absent if there is no response. */
  describeResponse?: (() => ResponseFacts) | undefined;
  /** The work of the batches of a request that failed. */
  batchedWork?: BatchedWork | null;
}
