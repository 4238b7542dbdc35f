/** Response headers and error responses of the public API. */

import type { ApiError } from "../../errors.ts";
import { type HeaderLines, HeaderWriter, WholeResponse } from "../../net/wire/http-message.ts";
import { OPENAI_API } from "../../protocols/openai/openai-api.ts";
import type { VendorApi } from "../../protocols/shared/endpoint.ts";

export const JSON_LINES: HeaderLines = "content-type: application/json\r\n";

export const EVENT_STREAM_LINES: HeaderLines =
  "content-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache, no-transform\r\nx-accel-buffering: no\r\n";

/** The error has the form of the API. Paths outside of all APIs use that of OpenAI. */
export function buildErrorResponse(
  error: ApiError,
  requestId: string,
  api: VendorApi = OPENAI_API,
): WholeResponse {
  const { status, headers, body } = api.writeError(error, requestId);
  const lines = new HeaderWriter(JSON_LINES);
  lines.set("x-request-id", requestId);
  for (const [name, value] of Object.entries(headers)) lines.set(name, value);
  return new WholeResponse(status, lines.lines, Buffer.from(JSON.stringify(body)));
}
