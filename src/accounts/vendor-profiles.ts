/** What the vendors of OpenAI-compatible APIs can express, as far as it differs from most of them. */

import { type AccountProfile, COMPATIBLE_PROFILE, OPENAI_PROFILE } from "../protocols/hub/account-profile.ts";
import type { Vendor } from "../vendors.ts";

/** Servers other than OpenAI's reject or ignore settings such as `service_tier` and `safety_identifier`. */
const COMPATIBLE: AccountProfile = { ...COMPATIBLE_PROFILE, openaiSettings: false };

/** Servers of an operator run models of any ability: they get no field that only some of them accept. */
const LOCAL: AccountProfile = { ...COMPATIBLE, imageUrl: "inline", thinking: "none", cache: "none" };

export const VENDOR_PROFILES: Readonly<Record<Vendor, AccountProfile>> = {
  openai: OPENAI_PROFILE,
  // Thinking models answer 400 if the reasoning of a turn with tool calls is not sent back.
  deepseek: { ...COMPATIBLE, reasoningReplay: "required", jsonSchema: "none", imageUrl: "inline" },
  openrouter: {
    ...COMPATIBLE,
    reasoningField: "reasoning",
    strictSchema: true,
    pdf: true,
    cache: "explicit",
  },
  groq: {
    ...COMPATIBLE,
    maxTokensField: "max_completion_tokens",
    reasoningField: "reasoning",
    reasoningReplay: "refused",
  },
  mistral: {
    ...COMPATIBLE,
    thinking: "none",
    reasoningField: "content",
    systemPosition: "first",
    shortCallIds: true,
  },
  xai: { ...COMPATIBLE, strictSchema: true, reasoningReplay: "refused" },
  together: { ...COMPATIBLE, reasoningField: "reasoning", cache: "none" },
  fireworks: { ...COMPATIBLE, jsonSchema: "native" },
  moonshot: { ...COMPATIBLE, reasoningReplay: "required", thinking: "none", imageUrl: "inline" },
  qwen: { ...COMPATIBLE, thinking: "none", jsonSchema: "none", reasoningReplay: "refused" },
  zai: { ...COMPATIBLE, thinking: "none", jsonSchema: "none" },
  cerebras: {
    ...COMPATIBLE,
    maxTokensField: "max_completion_tokens",
    reasoningField: "reasoning",
    reasoningReplay: "refused",
    imageUrl: "inline",
  },
  ollama: { ...LOCAL, reasoningField: "reasoning" },
  vllm: LOCAL,
  lmstudio: LOCAL,
};
