/**
 * Reads and writes addresses. The router decodes a part of the escapes (`%2541` becomes `%41`, while `%2F` stays), so
 * that `%41` and `A` cannot be distinguished. A `%` that is escaped twice passes the router unchanged.
 */

import { useBrowserLocation, useSearch } from "wouter/use-browser-location";

const escaped = (text: string) => text.replaceAll("%", "%25");

export const useRawLocation: typeof useBrowserLocation = (options) => {
  const [path, go] = useBrowserLocation(options);
  return [escaped(path), go];
};

export const useRawSearch: typeof useSearch = (options) => escaped(useSearch(options));

/** Decodes a part of an address: the reverse of writing it into one. */
export function readParams(
  params: Readonly<Record<string, string | undefined>>,
): Record<string, string | undefined> {
  return Object.fromEntries(
    Object.entries(params).map(([name, value]) => [name, value === undefined ? undefined : unescaped(value)]),
  );
}

/** The user may have typed a `%` that escapes nothing. */
function unescaped(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
