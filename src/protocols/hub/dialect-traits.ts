/** In what the dialects of clients differ for those who write their requests in another dialect. */

import type { Dialect } from "../../records/interfaces.ts";

interface DialectTraits {
  /** The names of settings that are dropped. */
  readonly user: string;
  readonly logprobs: string;
  /** Where the number of alternatives has a name of its own. */
  readonly topLogprobs: string | null;
  readonly citations: string;
  /** Null if the client sets none: that of a Messages client is read from its user. */
  readonly promptCacheKey: string | null;
  /** The user is a pseudonym. That of other dialects may contain names, which are meant for another vendor. */
  readonly hasPseudonym: boolean;
  /** The client has a field to carry the state of reasoning. */
  readonly carriesState: boolean;
  readonly repeatsRequest: boolean;
}

const COMMON: DialectTraits = {
  user: "user",
  logprobs: "logprobs",
  topLogprobs: "top_logprobs",
  citations: "annotations",
  promptCacheKey: "prompt_cache_key",
  hasPseudonym: false,
  carriesState: true,
  repeatsRequest: false,
};

export const DIALECT_TRAITS: Readonly<Record<Dialect, DialectTraits>> = {
  responses: { ...COMMON, hasPseudonym: true, repeatsRequest: true },
  chat: { ...COMMON, hasPseudonym: true, carriesState: false },
  messages: { ...COMMON, user: "metadata.user_id", citations: "citations", promptCacheKey: null },
  gemini: { ...COMMON, logprobs: "responseLogprobs", topLogprobs: null },
};
