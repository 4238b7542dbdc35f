/** What a request that is not streamed received from its account. */

import type { UpstreamFailure } from "../accounts/failure.ts";
import type { AnswerHeaders } from "../net/http-client/contract.ts";
import type { Part } from "../net/wire/parts.ts";

export type WholeResult =
  | { kind: "answered"; headers: AnswerHeaders; body: Part }
  | { kind: "failed"; failure: UpstreamFailure };
