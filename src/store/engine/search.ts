/** SQL conditions for free-text search in a column. */

import type { SqlValue } from "./db.ts";

/** Escapes `%` and `_` for LIKE with `ESCAPE '!'`. */
export function likeText(text: string): string {
  return text.replace(/[!%_]/g, "!$&");
}

/** Case-insensitive. SQLite's lower() changes only ASCII letters, so the search text is also matched unchanged. */
export function contains(column: string, searchText: string, mark: (value: SqlValue) => string): string {
  const [folded, plain] = [searchText.toLowerCase(), searchText].map((text) => mark(`%${likeText(text)}%`));
  return `(LOWER(${column}) LIKE ${folded} ESCAPE '!' OR ${column} LIKE ${plain} ESCAPE '!')`;
}
