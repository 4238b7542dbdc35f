/** Named settings of the installation. */

import type { Db } from "../engine/db.ts";
import { text } from "../engine/row.ts";

export async function readSetting(db: Db, name: string): Promise<string | null> {
  const [row] = await db.sql`SELECT value FROM setting WHERE name = ${name}`;
  return row === undefined ? null : text(row, "value");
}

export async function writeSetting(db: Db, name: string, value: string): Promise<void> {
  await db.sql`
    INSERT INTO setting (name, value) VALUES (${name}, ${value})
    ON CONFLICT (name) DO UPDATE SET value = excluded.value`;
}

export async function deleteSetting(db: Db, name: string): Promise<void> {
  await db.sql`DELETE FROM setting WHERE name = ${name}`;
}
