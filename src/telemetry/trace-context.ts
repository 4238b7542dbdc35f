/** The W3C trace context: reads `traceparent` and `tracestate` of a client, and writes those for an upstream. */

export interface RemoteParent {
  readonly traceId: string;
  readonly spanId: string;
  readonly isSampled: boolean;
}

/** Version, trace id, parent id and flags. A later version may append fields, which are ignored. */
const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[\x21-\x7e]*)?$/;
const TRACEPARENT_CHARS_MAX = 512;
const NO_TRACE_ID = "0".repeat(32);
const NO_SPAN_ID = "0".repeat(16);
const SAMPLED_FLAG = 1;

/** Returns null for a header that the specification declares invalid: such a request starts a new trace. */
export function parseTraceparent(header: string | null): RemoteParent | null {
  if (header === null || header.length > TRACEPARENT_CHARS_MAX) return null;
  const match = TRACEPARENT.exec(header);
  if (match === null) return null;
  const [, version = "", traceId = "", spanId = "", flags = "", rest] = match;
  if (version === "ff" || (version === "00" && rest !== undefined)) return null;
  if (traceId === NO_TRACE_ID || spanId === NO_SPAN_ID) return null;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & SAMPLED_FLAG) !== 0 };
}

export function formatTraceparent(traceId: string, spanId: string, isSampled: boolean): string {
  return `00-${traceId}-${spanId}-${isSampled ? "01" : "00"}`;
}

/** The specification requires that at least this many characters are forwarded. */
const TRACESTATE_CHARS_MAX = 512;
const TRACESTATE = /^[\x20-\x7e]+$/;

/** Returns the value that may be forwarded, or null. */
export function readTracestate(header: string | null): string | null {
  if (header === null || header.length > TRACESTATE_CHARS_MAX) return null;
  return TRACESTATE.test(header) ? header : null;
}

/**
 * The trace id of a request that starts a trace: the random id in its request id, so that either id leads to the
 * other. Returns null for a request id of another form.
 */
export function deriveTraceId(requestId: string): string | null {
  const at = requestId.length - UUID_CHARS;
  if (at < 0 || requestId.charCodeAt(at + 8) !== DASH) return null;
  const traceId =
    requestId.slice(at, at + 8) +
    requestId.slice(at + 9, at + 13) +
    requestId.slice(at + 14, at + 18) +
    requestId.slice(at + 19, at + 23) +
    requestId.slice(at + 24);
  return traceId.length === 32 ? traceId : null;
}

const UUID_CHARS = 36;
const DASH = 0x2d;
