import type { AccountRecord, GroupRecord, KeyRecord, ModelRecord, UserRecord } from "../records.ts";
import type { Db } from "../store/db.ts";
import type { FieldChange } from "./difference.ts";
import type { Installation } from "./installation.ts";

/** What a plan is made from and made of. */

export interface State {
  models: ModelRecord[];
  accounts: AccountRecord[];
  groups: GroupRecord[];
  users: UserRecord[];
  keys: KeyRecord[];
}

export interface Change {
  kind: "create" | "change" | "remove";
  /** `account openai-1` */
  what: string;
  fields: FieldChange[];
}

export interface Step extends Change {
  write(tx: Db): Promise<unknown>;
}

export type Secrets = Pick<Installation, "keyring" | "digest" | "clock" | "newId" | "randomBytes">;

/** Null when nothing changes. */
export function stepOf(
  what: string,
  isNew: boolean,
  fields: FieldChange[],
  write: Step["write"],
): Step | null {
  if (!isNew && fields.length === 0) return null;
  return { kind: isNew ? "create" : "change", what, fields, write };
}

/** References were checked with the file. */
export function known(ids: ReadonlyMap<string, string>, name: string): string {
  const id = ids.get(name);
  if (id === undefined)
    throw new Error("The file refers to something that was not there when it was checked.");
  return id;
}
