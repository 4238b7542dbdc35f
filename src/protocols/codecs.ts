/** The codecs of the dialects that can be translated. */

import type { Dialect } from "../records/interfaces.ts";
import { CHAT_CODEC } from "./chat/chat-codec.ts";
import { GEMINI_CODEC } from "./gemini/gemini-codec.ts";
import type { DialectCodec } from "./hub/dialect-codec.ts";
import { MESSAGES_CODEC } from "./messages/messages-codec.ts";
import { RESPONSES_CODEC } from "./responses/responses-codec.ts";

const CODECS: Readonly<Record<Dialect, DialectCodec>> = {
  responses: RESPONSES_CODEC,
  chat: CHAT_CODEC,
  gemini: GEMINI_CODEC,
  messages: MESSAGES_CODEC,
};

export function lookUpCodec(dialect: Dialect): DialectCodec {
  return CODECS[dialect];
}
