/** An admitted request and all that belongs to it. */

import type { Lease, Subject } from "../limits/limiter.ts";
import type { PublishedModel, Route } from "../policy/snapshot.ts";
import type { Endpoint, ModelRequest } from "../protocols/shared/request.ts";
import type { Caller } from "./admission/authenticate.ts";
import type { Call, Gateway } from "./gateway.ts";
import type { CallRecord } from "./request-record.ts";

export interface Passage<C extends Call = Call> {
  gateway: Gateway;
  call: C;
  endpoint: Endpoint;
  caller: Caller;
  request: ModelRequest;
  model: PublishedModel;
  routes: readonly Route[];
  record: CallRecord;
  /** Whose limits admitted the request, and what they granted. */
  subjects: readonly Subject[];
  lease: Lease;
}
