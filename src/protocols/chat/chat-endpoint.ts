/** The endpoint of Chat Completions. */

import { stringValue } from "../../json/scan.ts";
import { OPENAI_API } from "../openai/openai-api.ts";
import { readWholeUsage } from "../openai/openai-whole-usage.ts";
import { defineEndpoint } from "../shared/endpoint.ts";
import { checkMessages } from "../shared/json-fields.ts";
import { withImpliedSearch } from "../shared/web-searches.ts";
import { openChatReader } from "./chat-stream.ts";
import { rewriteInnerErrors } from "./inner-errors.ts";
import { shortenCallIds } from "./short-call-ids.ts";

export const CHAT_COMPLETIONS = defineEndpoint({
  name: "chat.completions",
  interface: "chat",
  dialect: "chat",
  path: "/chat/completions",
  api: OPENAI_API,
  output: "text",
  responseMember: "choices",
  isBounded: true,
  reportsUsageOnRequest: true,
  failsIfEmpty: "always",
  readsInputOnce: true,
  hidesReasoning: true,
  shortenCallIds,
  checkContent: checkMessages,
  openReader: ({ publicModel, hidesUsage, choices }, { depthMax, sink }) =>
    openChatReader({ publicModel, hidesUsage, choices, depthMax, sink }),
  editWhole: ({ whole, fields, depthMax, toPublicMessage }) =>
    rewriteInnerErrors(whole, fields.choices, depthMax, toPublicMessage),
  readUsage: (bytes, fields) =>
    withImpliedSearch(
      readWholeUsage(bytes, fields),
      fields.model === undefined ? null : stringValue(bytes, fields.model),
    ),
});
