/** The headers with which a client limits the fallback of its request. */

import { ApiError } from "../../errors.ts";
import { parseDecimal } from "../../money/nano.ts";
import type { HeaderReader } from "../../net/wire/http-fields.ts";

/** Decimals of factors in `max_price` and in the header. */
const FACTOR_DECIMALS = 6;
const FALLBACK_HEADER = "x-gateway-fallback";
const MAX_PRICE_HEADER = "x-gateway-max-price";
export const FALLBACK_HEADERS = [FALLBACK_HEADER, MAX_PRICE_HEADER] as const;
const POSITIVE_DECIMAL = /^(?=.*[1-9])\d{1,9}(\.\d{1,6})?$/;

interface FallbackHeaders {
  readonly isDenied: boolean;
  /** The highest cost of a step as a factor of the cost at the first one, in millionths; null if the client sets none. */
  readonly maxPriceMillionths: bigint | null;
}

export function readFallbackHeaders(headers: HeaderReader): FallbackHeaders {
  const wanted = headers.get(FALLBACK_HEADER);
  if (wanted !== null && wanted !== "none")
    throw new ApiError("invalid_value", "`x-gateway-fallback` must be `none`, or left out.");
  const maxPrice = headers.get(MAX_PRICE_HEADER);
  if (maxPrice !== null && !POSITIVE_DECIMAL.test(maxPrice))
    throw new ApiError(
      "invalid_value",
      "`x-gateway-max-price` must be a positive decimal like `1.5`, with at most 6 decimals.",
    );
  return {
    isDenied: wanted === "none",
    maxPriceMillionths: maxPrice === null ? null : parseDecimal(maxPrice, FACTOR_DECIMALS),
  };
}
