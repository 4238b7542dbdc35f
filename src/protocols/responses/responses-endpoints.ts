/** The endpoints of the Responses API. */

import { OPENAI_API } from "../openai/openai-api.ts";
import { readWholeUsage } from "../openai/openai-whole-usage.ts";
import { type BodyFields, defineEndpoint } from "../shared/endpoint.ts";
import { isPresent } from "../shared/json-body.ts";
import { continuesConversation, requireKind } from "../shared/json-fields.ts";
import { countSearchesInOutput, withSearches } from "../shared/web-searches.ts";
import { RESPONSES_STATE } from "./responses-state.ts";
import { openResponsesReader } from "./responses-stream.ts";

const COMMON = {
  interface: "responses",
  api: OPENAI_API,
  outputLimits: ["max_output_tokens"],
  continuesResponses: true,
  state: RESPONSES_STATE,
  checkContent(_: Uint8Array, fields: BodyFields) {
    if (continuesConversation(fields) && !isPresent(fields.input)) return;
    requireKind(fields.input, "input", ["string", "array"], "a string or an array of items");
  },
  readUsage: (bytes: Uint8Array, fields: BodyFields) =>
    withSearches(readWholeUsage(bytes, fields), countSearchesInOutput(bytes, fields.output)),
} as const;

export const RESPONSES = defineEndpoint({
  ...COMMON,
  name: "responses",
  dialect: "responses",
  path: "/responses",
  output: "text",
  responseMember: "output",
  hasWebSocket: true,
  isBounded: true,
  stores: "by_default",
  hasStatus: true,
  failsIfEmpty: "completed",
  hidesReasoning: true,
  searchLimit: "max_tool_calls",
  sendsContextErrorAsEvent: true,
  openReader: ({ publicModel }, options) => openResponsesReader({ publicModel, ...options }),
});

export const COMPACT = defineEndpoint({
  ...COMMON,
  name: "responses.compact",
  path: "/responses/compact",
  output: "text",
  responseMember: "output",
  streaming: "never",
  isShort: true,
});

export const INPUT_TOKENS = defineEndpoint({
  ...COMMON,
  name: "responses.input_tokens",
  path: "/responses/input_tokens",
  output: "count",
  responseMember: "input_tokens",
  streaming: "never",
});
