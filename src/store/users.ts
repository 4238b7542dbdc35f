import type { Role, UserRecord } from "../records.ts";
import { enumerate, orDuplicate, StoreConflict } from "./conflict.ts";
import { type Db, type Row, transaction } from "./db.ts";
import { callerLimits, callerLimitsText } from "./limits-column.ts";
import { bumpKeyRevision } from "./revisions.ts";
import { integer, oneOf, text, textOrNull } from "./row.ts";

const ROLES: readonly Role[] = ["admin", "user"];

export async function listUsers(db: Db): Promise<UserRecord[]> {
  const rows = await db.sql`
    SELECT id, email, role, password_hash, limits, created_at_ms FROM app_user ORDER BY created_at_ms, id`;
  return rows.map(toUser);
}

/** Case makes no difference. */
export async function findUserByEmail(db: Db, email: string): Promise<UserRecord | null> {
  const [row] = await db.sql`
    SELECT id, email, role, password_hash, limits, created_at_ms FROM app_user
    WHERE email_folded = ${fold(email)}`;
  return row === undefined ? null : toUser(row);
}

export async function isUser(db: Db, id: string): Promise<boolean> {
  const found = await db.sql`SELECT id FROM app_user WHERE id = ${id}`;
  return found.length > 0;
}

/** Changed limits are a change of the user's keys: whoever follows the keys hears of it. */
export async function putUser(db: Db, user: UserRecord): Promise<void> {
  await transaction(db, async (tx) => {
    const revision = await bumpKeyRevision(tx);
    const limits = callerLimitsText(user.limits);
    const [before] = await tx.sql`SELECT id, limits FROM app_user WHERE id = ${user.id}`;
    await orDuplicate(
      `Another user has the address "${user.email}" already.`,
      tx.sql`
        INSERT INTO app_user (id, email, email_folded, role, password_hash, limits, created_at_ms)
        VALUES (${user.id}, ${user.email}, ${fold(user.email)}, ${user.role}, ${user.passwordHash}, ${limits},
          ${user.createdAtMs})
        ON CONFLICT (id) DO UPDATE SET email = excluded.email, email_folded = excluded.email_folded,
          role = excluded.role, password_hash = excluded.password_hash, limits = excluded.limits,
          created_at_ms = excluded.created_at_ms`,
    );
    if (before !== undefined && text(before, "limits") !== limits)
      await tx.sql`UPDATE api_key SET revision = ${revision} WHERE user_id = ${user.id}`;
  });
}

/** False if there was none. Revoked keys do not hold their user. */
export async function deleteUser(db: Db, id: string): Promise<boolean> {
  return transaction(db, async (tx) => {
    // For its lock: no key may be given to the user between the check and the end.
    await bumpKeyRevision(tx);
    const keys = await tx.sql`
      SELECT name FROM api_key WHERE user_id = ${id} AND status = 'active' ORDER BY created_at_ms, id`;
    if (keys.length > 0) {
      const names = keys.map((row) => text(row, "name"));
      throw new StoreConflict("referenced", `The user "${id}" still has ${enumerate("key", names)}.`);
    }
    await tx.sql`UPDATE subscription SET status = 'cancelled' WHERE user_id = ${id} AND status = 'active'`;
    const deleted = await tx.sql`DELETE FROM app_user WHERE id = ${id} RETURNING id`;
    return deleted.length > 0;
  });
}

/** Folded here, because the engines' own lower() differ beyond ASCII. */
function fold(email: string): string {
  return email.normalize("NFC").toLowerCase();
}

function toUser(row: Row): UserRecord {
  return {
    id: text(row, "id"),
    email: text(row, "email"),
    role: oneOf(row, "role", ROLES),
    passwordHash: textOrNull(row, "password_hash"),
    limits: callerLimits(row, "limits"),
    createdAtMs: integer(row, "created_at_ms"),
  };
}
