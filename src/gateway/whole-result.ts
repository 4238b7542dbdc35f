/** What a request that is not streamed received from its account. */

import type { UpstreamFailure } from "../accounts/failure.ts";
import type { Part } from "../base/parts.ts";
import type { ResponseHeaders } from "../net/http-client/contract.ts";

export type WholeResult =
  | { kind: "responded"; headers: ResponseHeaders; body: Part }
  | { kind: "failed"; failure: UpstreamFailure };
