/** The capability profiles of the kinds of accounts. Those of single vendors are in `vendors.ts`. */

import type { AccountProfile } from "../protocols/hub/account-profile.ts";

/** What OpenAI's own API can express. */
export const OPENAI_PROFILE: AccountProfile = {
  maxTokensField: "max_completion_tokens",
  systemRole: "developer",
  systemPosition: "any",
  strictSchema: true,
  parallelTools: true,
  reasoningField: "none",
  reasoningReplay: "refused",
  sampling: true,
  thinking: "effort",
  streamUsage: "option",
  customTools: true,
  jsonSchema: "native",
  imageUrl: "remote",
  pdf: true,
  cache: "implicit",
  effortMax: "max",
};

/** What most servers with OpenAI's interfaces can express. */
export const COMPATIBLE_PROFILE: AccountProfile = {
  ...OPENAI_PROFILE,
  maxTokensField: "max_tokens",
  systemRole: "system",
  strictSchema: false,
  reasoningField: "reasoning_content",
  reasoningReplay: "allowed",
  customTools: false,
  pdf: false,
  effortMax: "high",
};

/** What Anthropic's API can express with every model: current models reject budgets and sampling. */
export const ANTHROPIC_PROFILE: AccountProfile = {
  ...OPENAI_PROFILE,
  maxTokensField: "max_tokens",
  systemRole: "system",
  systemPosition: "first",
  strictSchema: false,
  reasoningReplay: "allowed",
  sampling: false,
  thinking: "adaptive",
  streamUsage: "always",
  customTools: false,
  cache: "explicit",
};

/** What Claude can express at Amazon Bedrock and Google Vertex AI: they fetch no images and place no breakpoints. */
export const HOSTED_CLAUDE_PROFILE: AccountProfile = {
  ...ANTHROPIC_PROFILE,
  imageUrl: "inline",
  automaticCache: false,
};

/** What Google's Gemini API can express. */
export const GEMINI_PROFILE: AccountProfile = {
  ...OPENAI_PROFILE,
  systemRole: "system",
  systemPosition: "first",
  strictSchema: false,
  parallelTools: false,
  // Models before Gemini 3 take a budget: the name of the model decides.
  thinking: "level",
  streamUsage: "always",
  customTools: false,
  imageUrl: "inline",
};

/** The same models at Vertex AI, which rejects the ids of function calls. */
export const VERTEX_GEMINI_PROFILE: AccountProfile = { ...GEMINI_PROFILE, callIds: false };

/** Servers other than OpenAI's reject or ignore settings such as `service_tier` and `safety_identifier`. */
export const VENDOR_PROFILE: AccountProfile = { ...COMPATIBLE_PROFILE, openaiSettings: false };

/** Servers of an operator run models of any ability: they get no field that only some of them accept. */
export const LOCAL_PROFILE: AccountProfile = {
  ...VENDOR_PROFILE,
  imageUrl: "inline",
  thinking: "none",
  cache: "none",
};
