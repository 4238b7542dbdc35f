/** What somebody types into a search field, found anywhere in a column. */

import type { SqlValue } from "./db.ts";

/** `%` and `_` stand for themselves, behind `ESCAPE '!'`. */
export function likeText(text: string): string {
  return text.replace(/[!%_]/g, "!$&");
}

/**
 * Case makes no difference. SQLite's own lower() leaves letters beyond ASCII as they are, so what was typed is also
 * looked for as it stands.
 */
export function contains(column: string, typed: string, mark: (value: SqlValue) => string): string {
  const [folded, plain] = [typed.toLowerCase(), typed].map((text) => mark(`%${likeText(text)}%`));
  return `(LOWER(${column}) LIKE ${folded} ESCAPE '!' OR ${column} LIKE ${plain} ESCAPE '!')`;
}
