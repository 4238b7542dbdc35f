/** Sends the response to a call on a stored response. A long one counts as memory until its client has read it. */

import { type Part, partsLength } from "../../base/parts.ts";
import {
  type HeaderLines,
  type HttpResponse,
  StreamedResponse,
  WholeResponse,
} from "../../net/wire/http-message.ts";
import type { BodyReservation } from "../bodies/body-budget.ts";
import { SMALL_BODY_BYTES_MAX } from "../bodies/body-memory.ts";
import { noRoomForResponse } from "../stored-responses/record-loader.ts";
import { PacedBody } from "../stream/paced-body.ts";
import { clientGone } from "../upstream/send-request.ts";

/** `release` is called when the reservation is no longer needed, unless this throws. */
export async function sendStored(
  headers: HeaderLines,
  body: readonly Part[],
  { memory, release }: { readonly memory: BodyReservation; readonly release: () => void },
): Promise<HttpResponse> {
  const bytes = partsLength(body);
  if (bytes <= SMALL_BODY_BYTES_MAX) {
    release();
    return new WholeResponse(200, headers, body);
  }
  memory.shrinkTo(bytes);
  const result = await memory.growTo(bytes);
  if (result !== "room") throw result === "left" ? clientGone() : noRoomForResponse(memory.budget);
  return new StreamedResponse(headers, new PacedBody(body, release));
}
