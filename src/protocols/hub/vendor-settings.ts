/** Settings that several dialects write alike, or drop by the name that the client knows. */

import type { DroppedFields } from "./dropped-fields.ts";
import type { HubRequest } from "./hub-request.ts";

const OPENAI_TIERS: ReadonlySet<string> = new Set(["auto", "default", "flex", "priority", "scale"]);
/** Groq's name of the standard tier. */
const ON_DEMAND = "on_demand";

/** Tiers that only other vendors have would be rejected: the request is served at the standard tier. */
export function writeOpenaiTier({ settings }: HubRequest, dropped: DroppedFields): string | null {
  const { serviceTier: tier } = settings;
  if (tier === ON_DEMAND) return "default";
  if (tier === null || OPENAI_TIERS.has(tier)) return tier;
  dropped.add("service_tier");
  return null;
}

/** The user of other dialects may contain names, which are meant for another vendor. */
export function writeUser({ settings, dialect }: HubRequest, dropped: DroppedFields): string | null {
  if (dialect === "responses" || dialect === "chat") return settings.user;
  dropUser({ settings, dialect }, dropped);
  return null;
}

export function dropUser(
  { settings, dialect }: Pick<HubRequest, "settings" | "dialect">,
  dropped: DroppedFields,
): void {
  dropped.addIfSet(dialect === "messages" ? "metadata.user_id" : "user", settings.user);
}

export function dropLogprobs({ settings, dialect }: HubRequest, dropped: DroppedFields): void {
  dropped.addIfSet(dialect === "gemini" ? "responseLogprobs" : "logprobs", settings.logprobs);
}

/** Anthropic and Google cache without a key. That of a Messages client is not its own: it is read from its user. */
export function dropPromptCacheKey({ settings, dialect }: HubRequest, dropped: DroppedFields): void {
  if (dialect !== "messages") dropped.addIfSet("prompt_cache_key", settings.promptCacheKey);
}
