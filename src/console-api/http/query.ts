/** Parses the query of a request target. Rejects a query with more parameters than any operation has. */

import { limits } from "../../config/limits/product-limits.ts";
import { ApiError } from "../../errors.ts";

const AMPERSAND = "&";

/** Counted before anything is parsed, so that a rejected query costs one search for its separators. */
export function parseQuery(text: string): URLSearchParams {
  let count = 1;
  for (let at = text.indexOf(AMPERSAND); at !== -1; at = text.indexOf(AMPERSAND, at + 1)) {
    if (++count > limits.queryParametersMax) throw tooManyParameters();
  }
  return new URLSearchParams(text);
}

/** A repeated name becomes a list, which the operation accepts or rejects. One pass over the parameters. */
export function parseQueryRecord(text: string): Record<string, string | string[]> {
  const values = new Map<string, string | string[]>();
  for (const [name, value] of parseQuery(text)) {
    const earlier = values.get(name);
    if (earlier === undefined) values.set(name, value);
    else if (typeof earlier === "string") values.set(name, [earlier, value]);
    else earlier.push(value);
  }
  return Object.fromEntries(values);
}

function tooManyParameters(): ApiError {
  return new ApiError(
    "too_many_parameters",
    `The query has more than ${limits.queryParametersMax} parameters. Send only the parameters of the operation.`,
  );
}
