/** The endpoints of the Messages API. */

import { type BodyFields, defineEndpoint } from "../shared/endpoint.ts";
import { parseUsageMember } from "../shared/event-bounds.ts";
import { isPresent } from "../shared/json-body.ts";
import { checkMessages, missingFieldError } from "../shared/json-fields.ts";
import { ANTHROPIC_API } from "./anthropic-api.ts";
import { MESSAGES_STATE } from "./messages-state.ts";
import { openMessagesReader } from "./messages-stream.ts";
import { readMessagesUsage } from "./messages-usage.ts";

const COMMON = {
  interface: "messages",
  dialect: "messages",
  api: ANTHROPIC_API,
  outputLimits: ["max_tokens"],
  // The fast tier is in a member of its own.
  tierFields: ["speed", "service_tier"],
  state: MESSAGES_STATE,
  /** Messages report their searches. */
  readUsage: (bytes: Uint8Array, { usage }: BodyFields) =>
    usage?.kind === "object" ? readMessagesUsage(parseUsageMember(bytes, usage)) : null,
} as const;

export const MESSAGES = defineEndpoint({
  ...COMMON,
  name: "messages",
  path: "/messages",
  output: "text",
  responseMember: "content",
  isBounded: true,
  stores: "in_threads",
  searchLimit: "max_uses",
  checkContent(bytes, fields) {
    if (!isPresent(fields.max_tokens))
      throw missingFieldError("max_tokens", "the maximum number of output tokens");
    checkMessages(bytes, fields);
  },
  openReader: ({ publicModel }, { depthMax, sink }) => openMessagesReader({ publicModel, depthMax, sink }),
});

/** Served without the pipeline: it is free and has no account slot. */
export const COUNT_TOKENS_ENDPOINT = defineEndpoint({
  ...COMMON,
  name: "messages.count_tokens",
  path: "/messages/count_tokens",
  output: "count",
  responseMember: "input_tokens",
  streaming: "never",
  checkContent: checkMessages,
});
