/** Reads service tiers: one reader for the request that is sent, its hold and its charge, in all dialects. */

import type { JsonField } from "../../json/scan.ts";
import type { ReportedTier, RequestedTier } from "../../money/token-counts.ts";
import { SERVICE_TIERS, type ServiceTier } from "../../records/price.ts";
import { readText } from "./read-text.ts";

/** Names of the standard tier: of OpenAI, Google, Anthropic and Groq. `auto` leaves the tier to the upstream. */
const STANDARD_NAMES: ReadonlySet<string> = new Set([
  "auto",
  "default",
  "standard",
  "standard_only",
  "unspecified",
  "on_demand",
]);

/** The name in lower case. Google writes tiers in capitals, and with the name of its enumeration: `SERVICE_TIER_FLEX`. */
export function readTierName(value: unknown): string | null {
  if (typeof value !== "string" || value === "") return null;
  const name = value.toLowerCase();
  return name.startsWith("service_tier_") ? name.slice("service_tier_".length) : name;
}

/** Null for the standard tier, and for tiers that have no prices. */
function findPricedTier(value: unknown): ServiceTier | null {
  const name = readTierName(value);
  return SERVICE_TIERS.find((tier) => tier === name) ?? null;
}

/**
 * The tier that a request names. Null and absent values name none; every other value that is not known may be another
 * spelling of a dear tier, such as a number of Google's enumeration.
 */
export function readRequestedTier(bytes: Uint8Array, field: JsonField | undefined): RequestedTier | null {
  if (field === undefined || field.kind === "null") return null;
  const name = readTierName(readText(bytes, field));
  return name !== null && STANDARD_NAMES.has(name) ? null : (findPricedTier(name) ?? "unknown");
}

/**
 * A report may have several members for the tier: one with its own prices counts. Null if there is none: `auto`
 * repeats the request and is not a tier.
 */
export function readTier(...values: readonly unknown[]): ReportedTier | null {
  const tier = values.map(findPricedTier).find((found) => found !== null);
  const isReported = values.some((value) => typeof value === "string" && value !== "auto");
  return tier ?? (isReported ? "standard" : null);
}

/** The tier in OpenAI's words. */
export function formatTier(tier: ReportedTier): string {
  return tier === "standard" ? "default" : tier;
}
