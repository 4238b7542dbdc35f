/** The Messages API as one of the dialects that are translated into each other. */

import type { DialectCodec } from "../hub/dialect-codec.ts";
import { MessagesHubReader } from "./messages-hub-reader.ts";
import { MessagesHubWriter } from "./messages-hub-writer.ts";
import { readMessagesRequest } from "./messages-request-reader.ts";
import { writeMessagesRequest } from "./messages-request-writer.ts";
import { readMessagesResponse, writeMessagesResponse } from "./messages-whole.ts";

export const MESSAGES_CODEC: DialectCodec = {
  dialect: "messages",
  responseIdPrefix: "msg_",
  requestPath: () => "/messages",
  readRequest: readMessagesRequest,
  writeRequest: writeMessagesRequest,
  readResponse: readMessagesResponse,
  writeResponse: writeMessagesResponse,
  openStreamReader: (options) => new MessagesHubReader(options),
  openStreamWriter: (client) => new MessagesHubWriter(client),
};
