/** Settings that several dialects write alike, or drop by the name that the client knows. */

import { DIALECT_TRAITS } from "./dialect-traits.ts";
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

export function writeUser({ settings, dialect }: HubRequest, dropped: DroppedFields): string | null {
  if (DIALECT_TRAITS[dialect].hasPseudonym) return settings.user;
  dropUser({ settings, dialect }, dropped);
  return null;
}

export function dropUser(
  { settings, dialect }: Pick<HubRequest, "settings" | "dialect">,
  dropped: DroppedFields,
): void {
  dropped.addIfSet(DIALECT_TRAITS[dialect].user, settings.user);
}

export function dropLogprobs({ settings, dialect }: HubRequest, dropped: DroppedFields): void {
  dropped.addIfSet(DIALECT_TRAITS[dialect].logprobs, settings.logprobs);
}

/** For Chat Completions. OpenAI's clients name a number of alternatives, and zero of them is none. */
export function dropTopLogprobs(request: HubRequest, dropped: DroppedFields): void {
  const { topLogprobs: name } = DIALECT_TRAITS[request.dialect];
  if (name === null) dropLogprobs(request, dropped);
  else dropped.addIfSet(name, request.settings.logprobs || null);
}

/** Anthropic and Google cache without a key. */
export function dropPromptCacheKey({ settings, dialect }: HubRequest, dropped: DroppedFields): void {
  const { promptCacheKey: name } = DIALECT_TRAITS[dialect];
  if (name !== null) dropped.addIfSet(name, settings.promptCacheKey);
}
