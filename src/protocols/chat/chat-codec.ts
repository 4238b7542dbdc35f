/** Chat Completions as one of the dialects that are translated into each other. */

import type { DialectCodec } from "../hub/dialect-codec.ts";
import { ChatHubReader } from "./chat-hub-reader.ts";
import { ChatHubWriter } from "./chat-hub-writer.ts";
import { readChatRequest } from "./chat-request-reader.ts";
import { writeChatRequest } from "./chat-request-writer.ts";
import { readChatResponse, writeChatResponse } from "./chat-whole.ts";

export const CHAT_CODEC: DialectCodec = {
  dialect: "chat",
  responseIdPrefix: "chatcmpl-",
  requestPath: () => "/chat/completions",
  readRequest: readChatRequest,
  writeRequest: writeChatRequest,
  readResponse: readChatResponse,
  writeResponse: writeChatResponse,
  openStreamReader: (options) => new ChatHubReader(options),
  openStreamWriter: (client) => new ChatHubWriter(client),
};
