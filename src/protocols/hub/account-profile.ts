/** What an account's upstream can express: by its kind or vendor, and by its configuration. */

import type { Effort } from "./hub-request.ts";

export interface AccountProfile {
  readonly maxTokensField: "max_completion_tokens" | "max_tokens";
  /** The role of instructions in Chat Completions. */
  readonly systemRole: "developer" | "system" | "user";
  readonly systemPosition: "first" | "any";
  readonly strictSchema: boolean;
  readonly parallelTools: boolean;
  /** `content`: in a part of the content (Mistral). */
  readonly reasoningField: "reasoning_content" | "reasoning" | "content" | "none";
  /** Whether earlier reasoning is sent back in Chat Completions. */
  readonly reasoningReplay: "required" | "allowed" | "refused";
  /** Whether temperature, top_p and top_k are accepted. */
  readonly sampling: boolean;
  readonly thinking: "effort" | "budget" | "adaptive" | "level" | "none";
  readonly streamUsage: "option" | "always" | "never";
  readonly customTools: boolean;
  readonly jsonSchema: "native" | "tool" | "none";
  readonly imageUrl: "remote" | "inline";
  readonly pdf: boolean;
  readonly cache: "explicit" | "implicit" | "none";
  /** Messages: false for upstreams that reject `cache_control` of the whole request. */
  readonly automaticCache?: boolean;
  /** Gemini: false for upstreams that reject the ids of function calls. */
  readonly callIds?: boolean;
  /** Chat: true for upstreams that accept ids of calls with exactly nine letters and digits. */
  readonly shortCallIds?: boolean;
  /** The highest effort of `reasoning_effort`; `high` if not set. */
  readonly effortMax?: Effort;
  /** False for servers that reject settings of OpenAI's own API, such as `service_tier` and `safety_identifier`. */
  readonly openaiSettings?: boolean;
}
