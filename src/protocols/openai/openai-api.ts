/** What all endpoints of OpenAI's API have in common. */

import { errorObject } from "../../errors.ts";
import { KEEP_ALIVE } from "../../net/wire/sse-format.ts";
import type { VendorApi } from "../shared/endpoint.ts";

export const OPENAI_API: VendorApi = {
  name: "openai",
  prefix: "/v1",
  hasModelInPath: false,
  countField: "input_tokens",
  keepAlive: KEEP_ALIVE,
  requestIdHeader: null,
  errorStatus: (error) => error.status,
  writeError: (error, requestId) => ({
    status: error.status,
    headers: error.headers,
    body: { error: errorObject(error, requestId) },
  }),
};
