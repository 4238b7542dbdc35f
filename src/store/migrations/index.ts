/** In order, forward only. One that has shipped is never edited: write the next one. */

import foundation from "./0001-foundation.sql" with { type: "text" };
import limits from "./0002-limits.sql" with { type: "text" };
import money from "./0003-money.sql" with { type: "text" };

export interface Migration {
  version: number;
  name: string;
  sql: string;
}

export const MIGRATIONS: readonly Migration[] = [
  { version: 1, name: "foundation", sql: foundation },
  { version: 2, name: "limits", sql: limits },
  { version: 3, name: "money", sql: money },
];
