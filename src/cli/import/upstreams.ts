/** The upstreams of other gateways, by the names and numbers that they have there. */

import { VENDOR_PRESETS, type Vendor } from "../../accounts/vendors.ts";
import type { AccountKind } from "../../records/account.ts";

export interface SourceUpstream {
  readonly kind: AccountKind;
  readonly vendor?: Vendor;
  /** The path that the source adds to the address itself. */
  readonly path?: string;
}

export const AZURE: SourceUpstream = { kind: "azure" };

/** By the part of a model name before the slash. */
export const LITELLM_PROVIDERS: Readonly<Record<string, SourceUpstream>> = {
  openai: { kind: "openai", vendor: "openai" },
  azure: AZURE,
  anthropic: { kind: "anthropic" },
  gemini: { kind: "gemini" },
  deepseek: { kind: "openai", vendor: "deepseek" },
  openrouter: { kind: "openai", vendor: "openrouter" },
  groq: { kind: "openai", vendor: "groq" },
  mistral: { kind: "openai", vendor: "mistral" },
  xai: { kind: "openai", vendor: "xai" },
  together_ai: { kind: "openai", vendor: "together" },
  fireworks_ai: { kind: "openai", vendor: "fireworks" },
  moonshot: { kind: "openai", vendor: "moonshot" },
  dashscope: { kind: "openai", vendor: "qwen" },
  zai: { kind: "openai", vendor: "zai" },
  cerebras: { kind: "openai", vendor: "cerebras" },
  ollama: { kind: "openai", vendor: "ollama", path: "/v1" },
  ollama_chat: { kind: "openai", vendor: "ollama", path: "/v1" },
  hosted_vllm: { kind: "openai", vendor: "vllm" },
  lm_studio: { kind: "openai", vendor: "lmstudio" },
};

/** Without a provider in the name of a model, LiteLLM knows it by the name. */
export function guessProvider(model: string): string {
  return model.startsWith("claude") ? "anthropic" : "openai";
}

/** A server of the operator, which needs no credential. */
export function isLocal(vendor: string | undefined): boolean {
  return Object.entries(VENDOR_PRESETS).some(([name, preset]) => name === vendor && preset.isLocal);
}
