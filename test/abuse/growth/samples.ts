/** The documents of each dialect. */

import type { Dialect } from "./lab.ts";
import type { DialectSamples } from "./sample.ts";
import { CHAT } from "./samples/chat.ts";
import { GEMINI } from "./samples/gemini.ts";
import { MESSAGES } from "./samples/messages.ts";
import { RESPONSES } from "./samples/responses.ts";

export const SAMPLES: Readonly<Record<Dialect, DialectSamples>> = {
  responses: RESPONSES,
  chat: CHAT,
  messages: MESSAGES,
  gemini: GEMINI,
};
