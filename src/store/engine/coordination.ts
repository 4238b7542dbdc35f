/** The document by which nodes divide limits between them, on a server that they share. One statement for each step. */

import type { Db } from "./db.ts";
import { integer, textOrNull } from "./row.ts";

export const COORDINATION_KIND = "postgres";

export interface CoordinationRow {
  /** Null if there is no document. */
  readonly token: string | null;
  readonly document: string | null;
  /** The clock of the server. */
  readonly nowMs: number;
}

export async function readCoordination(db: Db): Promise<CoordinationRow> {
  const [row] = await db.sql`
    SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT) AS now_ms, token, document
    FROM (SELECT 1) AS one LEFT JOIN coordination ON coordination.id = 1`;
  if (row === undefined) throw new Error("The database returned no row for its clock.");
  return {
    token: textOrNull(row, "token"),
    document: textOrNull(row, "document"),
    nowMs: integer(row, "now_ms"),
  };
}

/** Returns false if the document is not the one with this token. No node writes an empty token: it counts as missing. */
export async function replaceCoordination(
  db: Db,
  token: string | null,
  next: { readonly token: string; readonly document: string },
): Promise<boolean> {
  const rows =
    token === null
      ? await db.sql`
          INSERT INTO coordination (id, token, document) VALUES (1, ${next.token}, ${next.document})
          ON CONFLICT (id) DO UPDATE SET token = excluded.token, document = excluded.document
          WHERE coordination.token = '' RETURNING id`
      : await db.sql`
          UPDATE coordination SET token = ${next.token}, document = ${next.document}
          WHERE id = 1 AND token = ${token} RETURNING id`;
  return rows.length === 1;
}
