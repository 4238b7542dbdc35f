/** An error as a WebSocket frame. Always with the status: some clients wait forever without it. */

import { type ApiError, errorObject } from "../errors.ts";

export function errorFrame(error: ApiError, requestId: string, streamId: string | null): string {
  return JSON.stringify({
    type: "error",
    status: error.status,
    ...(streamId === null ? {} : { stream_id: streamId }),
    sequence_number: 0,
    error: errorObject(error, requestId),
    headers: { "x-request-id": requestId, ...error.headers },
  });
}
