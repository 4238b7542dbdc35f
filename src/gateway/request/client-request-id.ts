/** The client's own id of a request, for log lines. */

import type { HeaderReader } from "../../net/wire/http-fields.ts";

const CHARS_MAX = 128;

/** Returns `X-Client-Request-Id`, truncated and reduced to printable ASCII. */
export function clientRequestId(headers: HeaderReader): string | null {
  const printable = headers.get("x-client-request-id")?.replace(/[^\x20-\x7e]/g, "") ?? "";
  return printable === "" ? null : printable.slice(0, CHARS_MAX);
}
