/** How a request ended: the facts that its settlement needs in addition to the request context. */

import type { ApiError } from "../../errors.ts";
import type { ResponseFacts } from "../../protocols/shared/response-facts.ts";
import type { UsageRow } from "../../store/usage/usage-row.ts";
import type { UsageEvidence } from "../metering/meter.ts";
import type { CountedOutput } from "../metering/output-counter.ts";
import type { BatchedWork } from "../request/trace.ts";

/** The state of a response upstream when its request has ended here. */
export type ResponseState =
  | "ended"
  /** A background response: it continues. */
  | "background"
  /** Its stream ended early here. The response may continue or have stopped. */
  | "left";

export interface RequestEnding extends UsageEvidence {
  outcome: UsageRow["outcome"];
  status: number;
  error: ApiError | null;
  responseId: string | null;
  responseState: ResponseState;
  /** An account processed the request for the client, so the request is charged. */
  isServed: boolean;
  /** Estimates the streamed text synchronously; null for responses that are not streamed as text. */
  estimateShown: (() => CountedOutput) | null;
  /** The client disconnected. Output that it did not receive is charged if the group charges. */
  isAbandoned: boolean;
  /** For traces; absent if there is no response. */
  describeResponse?: (() => ResponseFacts) | undefined;
  /** The work of the batches of a request that failed. */
  batchedWork?: BatchedWork | null;
}
