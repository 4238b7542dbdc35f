/** A price as a form holds it, and as the API accepts it. */

import type { ResponseBody } from "../../../api.ts";

export type PriceDocument = NonNullable<ResponseBody<"admin.models.get">["document"]["price"]>;

export const MAIN_UNITS = ["input", "cached_input", "output"] as const;
export const MORE_UNITS = [
  "cache_write",
  "cache_write_1h",
  "reasoning",
  "image_input",
  "audio_input",
  "audio_output",
  "image",
  "request",
] as const;
export const LONG_UNITS = [
  "input",
  "cached_input",
  "cache_write",
  "cache_write_1h",
  "output",
  "reasoning",
] as const;
export const CALL_UNITS = ["web_search"] as const;
export const TIERS = ["flex", "priority", "fast"] as const;

export type PriceUnit = (typeof MAIN_UNITS)[number] | (typeof MORE_UNITS)[number];
type LongUnit = (typeof LONG_UNITS)[number];
type CallUnit = (typeof CALL_UNITS)[number];
type Tier = (typeof TIERS)[number];

export interface PriceValues {
  units: Partial<Record<PriceUnit, string>>;
  /** One a line: `1024x1024/high = 0.25`. */
  images: string;
  longAbove: number | null;
  long: Partial<Record<LongUnit, string>>;
  calls: Partial<Record<CallUnit, string>>;
  tiers: Partial<Record<Tier, string>>;
}

export const NO_PRICE: PriceValues = {
  units: {},
  images: "",
  longAbove: null,
  long: {},
  calls: {},
  tiers: {},
};

export function priceValues(price: PriceDocument | undefined): PriceValues {
  if (price === undefined) return NO_PRICE;
  const { images = {}, long_context: long, per_call: calls = {}, tier: tiers = {}, ...units } = price;
  const { above = null, ...longUnits } = long ?? {};
  return {
    units: given(units),
    images: Object.entries(images)
      .map(([kind, usd]) => `${kind} = ${usd}`)
      .join("\n"),
    longAbove: above,
    long: given(longUnits),
    calls: given(calls),
    tiers: given(tiers),
  };
}

/** Undefined if all fields are empty. */
export function priceDocument(values: PriceValues): PriceDocument | undefined {
  const { units, images, longAbove, long } = values;
  const byKind = Object.fromEntries(
    images
      .split("\n")
      .filter((line) => line.trim() !== "")
      .map((line) => {
        const at = line.lastIndexOf("=");
        return at === -1 ? [line.trim(), ""] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
      }),
  );
  const longUnits = given(long);
  const calls = given(values.calls);
  const tiers = given(values.tiers);
  const hasLong = longAbove !== null || Object.keys(longUnits).length > 0;
  const document: PriceDocument = {
    ...given(units),
    ...(Object.keys(byKind).length === 0 ? {} : { images: byKind }),
    ...(hasLong ? { long_context: { input: "", ...longUnits, above: longAbove ?? 0 } } : {}),
    ...(Object.keys(calls).length === 0 ? {} : { per_call: calls }),
    ...(Object.keys(tiers).length === 0 ? {} : { tier: tiers }),
  };
  return Object.keys(document).length === 0 ? undefined : document;
}

function given<Unit extends string>(
  units: { readonly [unit in Unit]?: string | undefined },
): Partial<Record<Unit, string>> {
  const found: Partial<Record<Unit, string>> = {};
  for (const [unit, usd] of Object.entries<string | undefined>(units)) {
    if (usd !== undefined && usd.trim() !== "") found[unit as Unit] = usd.trim();
  }
  return found;
}
