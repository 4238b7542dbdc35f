/** The ids under which the log names a request. */

import type { HeaderReader } from "../../net/wire/http-fields.ts";
import type { RequestLogIds } from "../../observe/log.ts";
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

const CLIENT_ID_CHARS_MAX = 128;

/** The client's own id: `X-Client-Request-Id`, truncated and reduced to printable ASCII. */
export function clientRequestId(headers: HeaderReader): string | null {
  const printable = headers.get("x-client-request-id")?.replace(/[^\x20-\x7e]/g, "") ?? "";
  return printable === "" ? null : printable.slice(0, CLIENT_ID_CHARS_MAX);
}

/** The id of the distributed trace; no field if spans are not exported. */
export function traceLogId({ spanContext }: Trace): Pick<RequestLogIds, "trace_id"> {
  return spanContext === null ? NO_TRACE_ID : { trace_id: spanContext.traceId };
}

const NO_TRACE_ID = {};
