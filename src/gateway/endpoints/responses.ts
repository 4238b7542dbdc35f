/** Response headers and error responses of the public API. */

import { type ApiError, errorObject } from "../../errors.ts";
import { type HeaderLines, HeaderWriter, WholeResponse } from "../../net/wire/http-message.ts";

export const JSON_LINES: HeaderLines = "content-type: application/json\r\n";

export const EVENT_STREAM_LINES: HeaderLines =
  "content-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache, no-transform\r\nx-accel-buffering: no\r\n";

export function buildErrorResponse(error: ApiError, requestId: string): WholeResponse {
  const headers = new HeaderWriter(JSON_LINES);
  headers.set("x-request-id", requestId);
  for (const [name, value] of Object.entries(error.headers)) headers.set(name, value);
  const body = Buffer.from(JSON.stringify({ error: errorObject(error, requestId) }));
  return new WholeResponse(error.status, headers.lines, body);
}
