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

/** The address of an upstream that a channel has unless it names another one, and the path that is added to both. */
export interface ChannelUpstream extends SourceUpstream {
  readonly base?: string;
}

const ANTHROPIC: ChannelUpstream = { kind: "anthropic" };
const GEMINI: ChannelUpstream = { kind: "gemini" };
const OPENAI: ChannelUpstream = { kind: "openai", vendor: "openai", path: "/v1" };
const openaiLike = (vendor: Vendor, base: string, path = "/v1"): ChannelUpstream => {
  return { kind: "openai", vendor, base, path };
};

/** Types of channels that new-api and one-api have in common. The others have no counterpart, or differ. */
const CHANNELS: Readonly<Record<number, ChannelUpstream>> = {
  1: OPENAI,
  3: AZURE,
  14: ANTHROPIC,
  17: openaiLike("qwen", "https://dashscope.aliyuncs.com", "/compatible-mode/v1"),
  20: openaiLike("openrouter", "https://openrouter.ai/api"),
  24: GEMINI,
  25: openaiLike("moonshot", "https://api.moonshot.cn"),
};

export const NEW_API_CHANNELS: Readonly<Record<number, ChannelUpstream>> = {
  ...CHANNELS,
  4: openaiLike("ollama", "http://localhost:11434"),
  26: openaiLike("zai", "https://open.bigmodel.cn", "/api/paas/v4"),
  40: { kind: "openai", base: "https://api.siliconflow.cn", path: "/v1" },
  42: openaiLike("mistral", "https://api.mistral.ai"),
  43: openaiLike("deepseek", "https://api.deepseek.com"),
  48: openaiLike("xai", "https://api.x.ai"),
};

export const ONE_API_CHANNELS: Readonly<Record<number, ChannelUpstream>> = {
  ...CHANNELS,
  8: { kind: "openai", path: "/v1" },
  28: openaiLike("mistral", "https://api.mistral.ai"),
  29: openaiLike("groq", "https://api.groq.com/openai"),
  30: openaiLike("ollama", "http://localhost:11434"),
  36: openaiLike("deepseek", "https://api.deepseek.com"),
  39: openaiLike("together", "https://api.together.xyz"),
};

/** sub2api: the platform of accounts and groups, and the names of its models. */
export const PLATFORMS: Readonly<Record<string, ChannelUpstream & { readonly models: RegExp }>> = {
  anthropic: { ...ANTHROPIC, models: /^claude-/ },
  openai: { ...OPENAI, models: /^(?:gpt-|chatgpt-|codex-|o\d)/ },
  gemini: { ...GEMINI, models: /^gemini-/ },
};

/** The address of an account. OpenAI's preset is for its own address only. */
export function buildAddress(
  { kind, vendor, base, path = "" }: ChannelUpstream,
  given: string | null,
): { kind: AccountKind; vendor?: Vendor; base_url?: string } {
  const address = (given ?? base)?.replace(/\/+$/, "");
  const hasPreset = vendor !== undefined && (vendor !== OPENAI.vendor || address === undefined);
  return {
    kind,
    ...(hasPreset ? { vendor } : {}),
    ...(address === undefined ? {} : { base_url: address.endsWith(path) ? address : `${address}${path}` }),
  };
}
