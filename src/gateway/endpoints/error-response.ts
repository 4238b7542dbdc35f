/** Response headers and error responses of the public API. */

import type { ApiError } from "../../errors.ts";
import { type HeaderLines, HeaderWriter, WholeResponse } from "../../net/wire/http-message.ts";
import { writeClientError } from "../../protocols/client-error.ts";
import type { Interface } from "../../records/interfaces.ts";

export const JSON_LINES: HeaderLines = "content-type: application/json\r\n";

export const EVENT_STREAM_LINES: HeaderLines =
  "content-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache, no-transform\r\nx-accel-buffering: no\r\n";

/** `iface` is the interface whose form the error has. Paths outside of all interfaces use that of `responses`. */
export function buildErrorResponse(
  error: ApiError,
  requestId: string,
  iface: Interface = "responses",
): WholeResponse {
  const { status, headers, body } = writeClientError(iface, error, requestId);
  const lines = new HeaderWriter(JSON_LINES);
  lines.set("x-request-id", requestId);
  for (const [name, value] of Object.entries(headers)) lines.set(name, value);
  return new WholeResponse(status, lines.lines, Buffer.from(JSON.stringify(body)));
}
