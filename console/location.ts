/**
 * Addresses as they are. The router takes escapes away by halves (`%2541` becomes `%41`, while `%2F` stays), after which
 * nobody can tell `%41` from `A`; a `%` that is escaped once more comes through it as it was.
 */

import { useBrowserLocation, useSearch } from "wouter/use-browser-location";

const escaped = (text: string) => text.replaceAll("%", "%25");

export const useRawLocation: typeof useBrowserLocation = (options) => {
  const [path, go] = useBrowserLocation(options);
  return [escaped(path), go];
};

export const useRawSearch: typeof useSearch = (options) => escaped(useSearch(options));

/** What an address says of a page, as it was before it was written into one. */
export function readParams(
  params: Readonly<Record<string, string | undefined>>,
): Record<string, string | undefined> {
  return Object.fromEntries(
    Object.entries(params).map(([name, value]) => [name, value === undefined ? undefined : unescaped(value)]),
  );
}

/** Somebody may have typed a `%` that escapes nothing. */
function unescaped(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
