/** Responses as one of the dialects that are translated into each other. */

import type { DialectCodec } from "../hub/dialect-codec.ts";
import { ResponsesHubReader } from "./responses-hub-reader.ts";
import { ResponsesHubWriter } from "./responses-hub-writer.ts";
import { readResponsesRequest } from "./responses-request-reader.ts";
import { writeResponsesRequest } from "./responses-request-writer.ts";
import { readResponsesResponse, writeResponsesResponse } from "./responses-whole.ts";

export const RESPONSES_CODEC: DialectCodec = {
  dialect: "responses",
  responseIdPrefix: "resp_",
  requestPath: () => "/responses",
  readRequest: readResponsesRequest,
  writeRequest: writeResponsesRequest,
  readResponse: readResponsesResponse,
  writeResponse: writeResponsesResponse,
  openStreamReader: (options) => new ResponsesHubReader(options),
  openStreamWriter: (client) => new ResponsesHubWriter(client),
};
