/** Presets of vendors with OpenAI-compatible APIs, for accounts of kind `openai`: address, interfaces and abilities. */

import type { AccountProfile } from "../protocols/hub/account-profile.ts";
import type { Interface } from "../records/interfaces.ts";
import { LOCAL_PROFILE, OPENAI_PROFILE, VENDOR_PROFILE } from "./profiles.ts";

interface VendorPreset {
  readonly label: string;
  readonly baseUrl: string;
  readonly interfaces: readonly Interface[];
  /** A server of the operator: its address is usually private, which only the configuration file can allow. */
  readonly isLocal: boolean;
  readonly profile: AccountProfile;
}

const CHAT: readonly Interface[] = ["chat"];
const CHAT_AND_EMBEDDINGS: readonly Interface[] = ["chat", "embeddings"];

export const VENDOR_PRESETS = {
  openai: {
    label: "OpenAI",
    baseUrl: "https://api.openai.com/v1",
    interfaces: ["chat", "responses", "embeddings", "images"],
    isLocal: false,
    profile: OPENAI_PROFILE,
  },
  deepseek: hosted("DeepSeek", "https://api.deepseek.com/v1", {
    interfaces: CHAT,
    // Thinking models respond with 400 if the reasoning of a turn with tool calls is not sent back.
    reasoningReplay: "required",
    jsonSchema: "none",
    imageUrl: "inline",
  }),
  openrouter: hosted("OpenRouter", "https://openrouter.ai/api/v1", {
    interfaces: CHAT_AND_EMBEDDINGS,
    reasoningField: "reasoning",
    strictSchema: true,
    pdf: true,
    cache: "explicit",
  }),
  groq: hosted("Groq", "https://api.groq.com/openai/v1", {
    interfaces: CHAT,
    maxTokensField: "max_completion_tokens",
    reasoningField: "reasoning",
    reasoningReplay: "refused",
  }),
  mistral: hosted("Mistral", "https://api.mistral.ai/v1", {
    interfaces: CHAT_AND_EMBEDDINGS,
    thinking: "none",
    reasoningField: "content",
    systemPosition: "first",
    shortCallIds: true,
  }),
  xai: hosted("xAI", "https://api.x.ai/v1", {
    interfaces: ["chat", "responses", "images"],
    strictSchema: true,
    reasoningReplay: "refused",
  }),
  together: hosted("Together AI", "https://api.together.xyz/v1", {
    interfaces: ["chat", "embeddings", "images"],
    reasoningField: "reasoning",
    cache: "none",
  }),
  fireworks: hosted("Fireworks AI", "https://api.fireworks.ai/inference/v1", {
    interfaces: CHAT_AND_EMBEDDINGS,
    jsonSchema: "native",
  }),
  moonshot: hosted("Moonshot (Kimi)", "https://api.moonshot.ai/v1", {
    interfaces: CHAT,
    reasoningReplay: "required",
    thinking: "none",
    imageUrl: "inline",
  }),
  qwen: hosted("Alibaba Qwen", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", {
    interfaces: CHAT_AND_EMBEDDINGS,
    thinking: "none",
    jsonSchema: "none",
    reasoningReplay: "refused",
  }),
  zai: hosted("Z.ai (GLM)", "https://api.z.ai/api/paas/v4", {
    interfaces: CHAT,
    thinking: "none",
    jsonSchema: "none",
  }),
  cerebras: hosted("Cerebras", "https://api.cerebras.ai/v1", {
    interfaces: CHAT,
    maxTokensField: "max_completion_tokens",
    reasoningField: "reasoning",
    reasoningReplay: "refused",
    imageUrl: "inline",
  }),
  ollama: local("Ollama", "http://127.0.0.1:11434/v1", { reasoningField: "reasoning" }),
  vllm: local("vLLM", "http://127.0.0.1:8000/v1"),
  lmstudio: local("LM Studio", "http://127.0.0.1:1234/v1"),
} satisfies Readonly<Record<string, VendorPreset>>;

export type Vendor = keyof typeof VENDOR_PRESETS;
export const VENDORS = Object.keys(VENDOR_PRESETS) as readonly Vendor[];

/** The fields after the interfaces are what the profile of the vendor differs in. */
function hosted(
  label: string,
  baseUrl: string,
  { interfaces, ...abilities }: Pick<VendorPreset, "interfaces"> & Partial<AccountProfile>,
): VendorPreset {
  return { label, baseUrl, interfaces, isLocal: false, profile: { ...VENDOR_PROFILE, ...abilities } };
}

function local(label: string, baseUrl: string, abilities: Partial<AccountProfile> = {}): VendorPreset {
  return {
    label,
    baseUrl,
    interfaces: CHAT_AND_EMBEDDINGS,
    isLocal: true,
    profile: { ...LOCAL_PROFILE, ...abilities },
  };
}
