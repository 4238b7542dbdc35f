/** Finds a whole response that arrived with status 200 and is none. */

import { classifyError } from "../../accounts/classify-error.ts";
import { type UpstreamFailure, upstreamFailure } from "../../accounts/failure.ts";
import type { Endpoint } from "../../protocols/shared/endpoint.ts";
import {
  isEmptyResponse,
  type UpstreamResponse,
  type WholeResponseResult,
} from "../../protocols/whole-response.ts";

export function findWholeFailure(response: WholeResponseResult, endpoint: Endpoint): UpstreamFailure | null {
  switch (response.kind) {
    case "response":
      // An error in an unknown format, or a notice of a proxy.
      if (!response.hasExpectedContent) return upstreamFailure("bad_answer", "not a response", 200);
      return isEmpty(response, endpoint) ? upstreamFailure("bad_answer", "an empty response", 200) : null;
    case "error":
      return classifyError(200, response.error, null);
    case "malformed":
      return upstreamFailure("bad_answer", "the response is not a JSON object", 200);
  }
}

/** A success with zero output tokens and no content is treated as a failure. */
function isEmpty({ usage, status, body, mayBeEmpty }: UpstreamResponse, { failsIfEmpty }: Endpoint): boolean {
  if (usage?.outputTokens !== 0 || mayBeEmpty === true) return false;
  const isChecked = failsIfEmpty === "always" || (failsIfEmpty === "completed" && status === "completed");
  return isChecked && isEmptyResponse(body);
}
