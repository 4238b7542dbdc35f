/** What all endpoints of Google's API have in common. */

import { BLANK_KEEP_ALIVE } from "../../net/wire/sse-format.ts";
import type { VendorApi } from "../shared/endpoint.ts";
import { googleErrorBody } from "./google-error-body.ts";

export const GOOGLE_API: VendorApi = {
  name: "google",
  prefix: "/v1beta",
  hasModelInPath: true,
  countField: "totalTokens",
  // Its clients stop reading at a comment.
  keepAlive: BLANK_KEEP_ALIVE,
  requestIdHeader: null,
  errorStatus: (error) => error.status,
  writeError: (error, requestId) => ({
    status: error.status,
    headers: error.headers,
    body: googleErrorBody(error, requestId),
  }),
};
