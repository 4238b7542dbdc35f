/** The ids under which the log names a request. */

import type { HeaderReader } from "../../net/wire/http-fields.ts";
import type { RequestLogIds } from "../../observe/log.ts";
import { clientRequestId } from "./client-request-id.ts";
import type { Trace } from "./trace.ts";

/** The parts of a request context that name the request. */
interface NamedRequest {
  readonly call: { readonly requestId: string; readonly request: { readonly headers: HeaderReader } };
  readonly trace: Trace;
}

export function requestLogIds({ call, trace }: NamedRequest): RequestLogIds {
  return {
    request_id: call.requestId,
    client_request_id: clientRequestId(call.request.headers),
    ...traceLogId(trace),
  };
}

/** The id of the distributed trace; no field if spans are not exported. */
export function traceLogId({ spanContext }: Trace): Pick<RequestLogIds, "trace_id"> {
  return spanContext === null ? NO_TRACE_ID : { trace_id: spanContext.traceId };
}

const NO_TRACE_ID = {};
