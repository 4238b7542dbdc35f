/** Named settings of the installation. */

import type { z } from "zod";
import type { Db } from "../engine/db.ts";
import { CorruptRow, text } from "../engine/row.ts";

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

/** A setting that is stored as JSON. `absent` is not stored, and read if nothing is stored. */
export function jsonSetting<Value, Absent>(name: string, form: z.ZodType<Value>, absent: Absent) {
  return {
    async read(db: Db): Promise<Value | Absent> {
      const stored = await readSetting(db, name);
      if (stored === null) return absent;
      try {
        return form.parse(JSON.parse(stored));
      } catch {
        throw new CorruptRow(`The setting ${name} is not valid.`);
      }
    },
    async write(db: Db, value: Value | Absent): Promise<void> {
      if (value === absent) await deleteSetting(db, name);
      else await writeSetting(db, name, JSON.stringify(value));
    },
  };
}
