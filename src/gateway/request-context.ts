/** The context of one admitted request: everything known and held for it. */

import type { LimitLease, Subject } from "../limits/limiter.ts";
import type { AccountRoute, PublishedModel } from "../policy/snapshot.ts";
import type { Endpoint, ModelRequest } from "../protocols/shared/request.ts";
import type { Caller } from "./admission/authenticate.ts";
import type { Call, Gateway } from "./gateway.ts";
import type { RequestRecord } from "./request-record.ts";

export interface RequestContext<C extends Call = Call> {
  gateway: Gateway;
  call: C;
  endpoint: Endpoint;
  caller: Caller;
  request: ModelRequest;
  model: PublishedModel;
  routes: readonly AccountRoute[];
  record: RequestRecord;
  /** The caller's limits that admitted the request, and the reservation they granted. */
  subjects: readonly Subject[];
  lease: LimitLease;
}
