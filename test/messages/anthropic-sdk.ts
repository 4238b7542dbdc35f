/** The official SDK of Anthropic, installed in test/clients, in the versions that the tests use. */

import { join } from "node:path";
import { TEST_KEY } from "../support/running-gateway.ts";

/** As much of the SDK as the tests call. Results are checked by the tests themselves. */
export interface AnthropicSdk {
  messages: {
    create(params: object): Promise<unknown>;
    stream(params: object): AsyncIterable<{ type: string }> & {
      finalMessage(): Promise<unknown>;
      abort(): void;
    };
    countTokens(params: object): Promise<{ input_tokens: number }>;
  };
  models: { list(params?: object): AsyncIterable<{ id: string; display_name: string }> };
}

interface SdkModule {
  default: new (options: object) => AnthropicSdk;
}

/** The current one sends its key as a bearer token and the version 2026-10-21; the older one neither. */
export const SDK_PACKAGES = { "1.x": "@anthropic-ai/sdk", "0.x": "anthropic-sdk-0" } as const;
export type SdkVersion = keyof typeof SDK_PACKAGES;

const CLIENTS = join(import.meta.dir, "../clients/node_modules");

export async function openSdk(version: SdkVersion, url: string, options: object = {}): Promise<AnthropicSdk> {
  const path = join(CLIENTS, SDK_PACKAGES[version], "index.mjs");
  const { default: Anthropic }: SdkModule = await import(path);
  return new Anthropic({ baseURL: url, apiKey: TEST_KEY, maxRetries: 0, ...options });
}
