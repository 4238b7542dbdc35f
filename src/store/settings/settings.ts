/** Named settings of the installation. */

import type { z } from "zod";
import type { Db } from "../engine/db.ts";
import { CorruptRow, text } from "../engine/row.ts";

export async function readSetting(db: Db, name: string): Promise<string | null> {
  const [row] = await db.sql`SELECT value FROM setting WHERE name = ${name}`;
  return row === undefined ? null : text(row, "value");
}

export async function readJsonSetting<Value>(
  db: Db,
  name: string,
  schema: z.ZodType<Value>,
): Promise<Value | null> {
  const stored = await readSetting(db, name);
  if (stored === null) return null;
  try {
    return schema.parse(JSON.parse(stored));
  } catch {
    throw new CorruptRow(`The setting ${name} is not valid.`);
  }
}

export async function writeSetting(db: Db, name: string, value: string): Promise<void> {
  await db.sql`
    INSERT INTO setting (name, value) VALUES (${name}, ${value})
    ON CONFLICT (name) DO UPDATE SET value = excluded.value`;
}

export async function deleteSetting(db: Db, name: string): Promise<void> {
  await db.sql`DELETE FROM setting WHERE name = ${name}`;
}
