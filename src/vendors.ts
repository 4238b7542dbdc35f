/**
 * Addresses of vendors: the presets of OpenAI-compatible APIs, for accounts of kind `openai`, and the regional endpoints
 * of Amazon Bedrock and Google Vertex AI. What a vendor can express is in `accounts/vendor-profiles.ts`.
 */

import type { AccountKind } from "./records/account.ts";
import type { Interface } from "./records/interfaces.ts";

/** The base URL of an account whose configuration names none; null if it must name one. */
export const DEFAULT_BASE_URLS: Readonly<Record<AccountKind, string | null>> = {
  openai: null,
  azure: null,
  anthropic: "https://api.anthropic.com",
  bedrock: null,
  gemini: "https://generativelanguage.googleapis.com",
  vertex: null,
  simulator: "",
};

/** Kinds whose address follows from the region. */
export type RegionalKind = "bedrock" | "vertex";

export function isRegional(kind: AccountKind): kind is RegionalKind {
  return kind === "bedrock" || kind === "vertex";
}

/** The region of a Vertex AI account whose configuration names none: Google routes each request. */
export const VERTEX_REGION_DEFAULT = "global";

export function regionalBaseUrl(kind: RegionalKind, region: string): string {
  return kind === "bedrock" ? bedrockBaseUrl(region) : vertexBaseUrl(region);
}

function bedrockBaseUrl(region: string): string {
  const domain = region.startsWith("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
  return `https://bedrock-runtime.${region}.${domain}`;
}

function vertexBaseUrl(region: string): string {
  if (region === "global") return "https://aiplatform.googleapis.com";
  // Multi-regions have endpoints of another form.
  if (region === "us" || region === "eu") return `https://aiplatform.${region}.rep.googleapis.com`;
  return `https://${region}-aiplatform.googleapis.com`;
}

export const VENDORS = [
  "openai",
  "deepseek",
  "openrouter",
  "groq",
  "mistral",
  "xai",
  "together",
  "fireworks",
  "moonshot",
  "qwen",
  "zai",
  "cerebras",
  "ollama",
  "vllm",
  "lmstudio",
] as const;
export type Vendor = (typeof VENDORS)[number];

export interface VendorPreset {
  readonly label: string;
  readonly baseUrl: string;
  readonly interfaces: readonly Interface[];
  /** A server of the operator: its address is usually private, which only the configuration file can allow. */
  readonly isLocal: boolean;
}

const CHAT: readonly Interface[] = ["chat"];
const CHAT_AND_EMBEDDINGS: readonly Interface[] = ["chat", "embeddings"];

export const VENDOR_PRESETS: Readonly<Record<Vendor, VendorPreset>> = {
  openai: {
    label: "OpenAI",
    baseUrl: "https://api.openai.com/v1",
    interfaces: ["chat", "responses", "embeddings", "images"],
    isLocal: false,
  },
  deepseek: hosted("DeepSeek", "https://api.deepseek.com/v1", CHAT),
  openrouter: hosted("OpenRouter", "https://openrouter.ai/api/v1", CHAT_AND_EMBEDDINGS),
  groq: hosted("Groq", "https://api.groq.com/openai/v1", CHAT),
  mistral: hosted("Mistral", "https://api.mistral.ai/v1", CHAT_AND_EMBEDDINGS),
  xai: hosted("xAI", "https://api.x.ai/v1", ["chat", "responses", "images"]),
  together: hosted("Together AI", "https://api.together.xyz/v1", ["chat", "embeddings", "images"]),
  fireworks: hosted("Fireworks AI", "https://api.fireworks.ai/inference/v1", CHAT_AND_EMBEDDINGS),
  moonshot: hosted("Moonshot (Kimi)", "https://api.moonshot.ai/v1", CHAT),
  qwen: hosted("Alibaba Qwen", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", CHAT_AND_EMBEDDINGS),
  zai: hosted("Z.ai (GLM)", "https://api.z.ai/api/paas/v4", CHAT),
  cerebras: hosted("Cerebras", "https://api.cerebras.ai/v1", CHAT),
  ollama: local("Ollama", "http://127.0.0.1:11434/v1"),
  vllm: local("vLLM", "http://127.0.0.1:8000/v1"),
  lmstudio: local("LM Studio", "http://127.0.0.1:1234/v1"),
};

function hosted(label: string, baseUrl: string, interfaces: readonly Interface[]): VendorPreset {
  return { label, baseUrl, interfaces, isLocal: false };
}

function local(label: string, baseUrl: string): VendorPreset {
  return { label, baseUrl, interfaces: CHAT_AND_EMBEDDINGS, isLocal: true };
}
