/** Determines the user that a route is about: the caller or, for administrators and auditors, a user that they name. */

import { z } from "zod";
import { ApiError } from "../../errors.ts";
import type { KeyRecord } from "../../records/key.ts";
import type { Db } from "../../store/engine/db.ts";
import { findKey } from "../../store/policy/keys.ts";
import { type Actor, seesEverything } from "../http/route.ts";

/** Query fields of a reading route that administrators and auditors may call for another user. */
export const ownerQuery = { user: z.string().max(100).optional() };

export function resolveOwner(actor: Actor, user: string | undefined): string {
  if (user === undefined || user === actor.userId) return actor.userId;
  if (seesEverything(actor)) return user;
  throw new ApiError("forbidden", "Only administrators may request the data of other users. Remove `user`.", {
    param: "user",
  });
}

/** A key that the caller may change. A key of another user is reported as not found. */
export function ownKey(db: Db, actor: Actor, id: string): Promise<KeyRecord> {
  return requireKey(db, id, ({ userId }) => actor.role === "admin" || userId === actor.userId);
}

/** A key whose usage the caller may read. */
export function readableKey(db: Db, actor: Actor, id: string): Promise<KeyRecord> {
  return requireKey(db, id, ({ userId }) => seesEverything(actor) || userId === actor.userId);
}

async function requireKey(
  db: Db,
  id: string,
  isAllowed: (key: KeyRecord) => boolean,
): Promise<KeyRecord> {
  const key = await findKey(db, id);
  if (key !== null && isAllowed(key)) return key;
  throw new ApiError("not_found", "You have no such key. GET /api/keys lists your keys.");
}
